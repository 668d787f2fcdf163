{{- define "gateway.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "gateway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "gateway.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "gateway.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gateway.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gateway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "gateway.labels" -}}
{{ include "gateway.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "gateway.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "gateway.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gateway.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "gateway.configMapName" -}}
{{- default (printf "%s-config" (include "gateway.fullname" .)) .Values.config.existingConfigMap -}}
{{- end -}}

{{/* The variables that are read from Secrets, by the key of `secrets`. */}}
{{- define "gateway.secretVariables" -}}
adminToken: MCP_PROXY_ADMIN_TOKEN
metricsToken: MCP_PROXY_METRICS_TOKEN
redisUrl: MCP_PROXY_RATE_LIMIT_STORAGE_URL
sessionKeys: MCP_PROXY_SESSION_KEYS
stateUrl: MCP_PROXY_STATE_URL
stateKey: MCP_PROXY_STATE_KEY
runsUrl: MCP_PROXY_RUNS_URL
approvalsWebhook: MCP_PROXY_APPROVALS_WEBHOOK
approvalsWebhookSecret: MCP_PROXY_APPROVALS_WEBHOOK_SECRET
documentsUrl: MCP_PROXY_DOCUMENTS_URL
retrievalToken: MCP_PROXY_RETRIEVAL_TOKEN
embeddingsApiKey: MCP_PROXY_EMBEDDINGS_API_KEY
credentialsKey: MCP_PROXY_CREDENTIALS_KEY
signinClientSecret: MCP_PROXY_SIGNIN_CLIENT_SECRET
remoteToken: MCP_PROXY_REMOTE_TOKEN
{{- end -}}

{{- define "gateway.authMode" -}}
{{- get .Values.settings "MCP_PROXY_AUTH_MODE" | default (ternary "token" "none" (ne .Values.secrets.tokensFile.name "")) -}}
{{- end -}}

{{/* Who may connect, as a JSON list: without authentication no pod, unless the values name some. */}}
{{- define "gateway.ingressFrom" -}}
{{- $namespace := ternary list (list (dict "podSelector" dict)) (eq (include "gateway.authMode" .) "none") -}}
{{- .Values.networkPolicy.ingressFrom | default $namespace | toJson -}}
{{- end -}}

{{- define "gateway.maxReplicas" -}}
{{- ternary .Values.autoscaling.maxReplicas .Values.replicaCount .Values.autoscaling.enabled -}}
{{- end -}}

{{/* The names that callers may use; what `settings` says counts instead. */}}
{{- define "gateway.allowedHosts" -}}
{{- $name := include "gateway.fullname" . -}}
{{- $service := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- concat (list "localhost" "127.0.0.1" "[::1]") $service .Values.ingress.hosts .Values.allowedHosts | uniq | join "," -}}
{{- end -}}

{{/* Every setting that is no secret, as a YAML object: the chart's own, then those of `settings`. */}}
{{- define "gateway.settings" -}}
{{- $chart := dict "MCP_PROXY_HOST" "0.0.0.0" "MCP_PROXY_RETRIEVAL_WINDOW_URL" "local" "MCP_PROXY_SHUTDOWN_DRAIN_S" "5" -}}
{{- $_ := set $chart "MCP_PROXY_AUTH_MODE" (include "gateway.authMode" .) -}}
{{- $_ := set $chart "MCP_PROXY_ALLOWED_HOSTS" (include "gateway.allowedHosts" .) -}}
{{- if or .Values.documents.existingClaim .Values.secrets.documentsUrl.name -}}
{{- $_ := set $chart "MCP_PROXY_MOCK_MODE" "false" -}}
{{- end -}}
{{- $fixed := dict "MCP_PROXY_PORT" "8082" "MCP_PROXY_CONFIG_DIR" "/data/config" "MCP_PROXY_DOCUMENTS_PATH" "/data/documents" -}}
{{- if .Values.secrets.tokensFile.name -}}
{{- $_ := set $fixed "MCP_PROXY_TOKENS_FILE" "/data/tokens/tokens.jsonl" -}}
{{- end -}}
{{- toYaml (mergeOverwrite $chart (deepCopy .Values.settings) $fixed) -}}
{{- end -}}

{{/* A value of `settings` as an environment variable has it: no exponents in whole numbers. */}}
{{- define "gateway.spelt" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}{{- int64 . -}}{{- else -}}{{- . -}}{{- end -}}
{{- end -}}

{{/* The port of a URL, as a number; nothing for what is no URL. */}}
{{- define "gateway.portOf" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) -}}
{{- if $port -}}
{{- $port -}}
{{- else if has $url.scheme (list "https" "wss") -}}
443
{{- else if has $url.scheme (list "http" "ws") -}}
80
{{- end -}}
{{- end -}}

{{/* The TCP ports that the gateway connects to, as far as the values tell, as a JSON list. */}}
{{- define "gateway.egressPorts" -}}
{{- $ports := .Values.networkPolicy.egress.ports -}}
{{- if or .Values.secrets.redisUrl.name .Values.secrets.stateUrl.name .Values.secrets.runsUrl.name -}}
{{- $ports = concat $ports .Values.networkPolicy.egress.redisPorts -}}
{{- end -}}
{{- if or .Values.secrets.documentsUrl.name .Values.secrets.runsUrl.name -}}
{{- $ports = concat $ports .Values.networkPolicy.egress.postgresPorts -}}
{{- end -}}
{{- $urls := list -}}
{{- range $name := list "MCP_PROXY_JWT_JWKS_URL" "MCP_PROXY_RETRIEVAL_WINDOW_URL" "MCP_PROXY_REMOTE_URL" -}}
{{- with get $.Values.settings $name -}}{{- $urls = append $urls . -}}{{- end -}}
{{- end -}}
{{- $asksIssuer := get .Values.settings "MCP_PROXY_SIGNIN_CLIENT_ID" -}}
{{- $mcp := get .Values.config.files "mcp.json" -}}
{{- if kindIs "string" $mcp -}}{{- $mcp = fromJson $mcp -}}{{- end -}}
{{- if and (kindIs "map" $mcp) (not .Values.config.existingConfigMap) -}}
{{- range $server := get $mcp "mcpServers" -}}
{{- with get $server "url" -}}{{- $urls = append $urls . -}}{{- end -}}
{{- with get $server "auth" -}}
{{- $asksIssuer = true -}}
{{- with get . "authorizationServer" -}}{{- $urls = append $urls . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $asksIssuer -}}
{{- with get .Values.settings "MCP_PROXY_JWT_ISSUER" -}}{{- $urls = append $urls . -}}{{- end -}}
{{- end -}}
{{- range $url := $urls -}}
{{- with include "gateway.portOf" $url -}}{{- $ports = append $ports (int .) -}}{{- end -}}
{{- end -}}
{{- $whole := list -}}
{{- range $ports -}}{{- $whole = append $whole (int .) -}}{{- end -}}
{{- $whole | uniq | toJson -}}
{{- end -}}

{{/* Refuses what would not do what its reader expects. */}}
{{- define "gateway.check" -}}
{{- $auth := include "gateway.authMode" . -}}
{{- if and (eq $auth "token") (not .Values.secrets.tokensFile.name) -}}
{{- fail "settings.MCP_PROXY_AUTH_MODE is token, which requires a tokens file: set secrets.tokensFile.name to its Secret" -}}
{{- end -}}
{{- if and (ne $auth "token") .Values.secrets.tokensFile.name -}}
{{- fail (printf "secrets.tokensFile.name is set, but settings.MCP_PROXY_AUTH_MODE is %s: set the mode to token, or unset secrets.tokensFile.name" $auth) -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.enabled is true, which requires host names: set ingress.hosts" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (eq $auth "none") (not (hasKey .Values.settings "MCP_PROXY_AUTH_MODE")) -}}
{{- fail "ingress.enabled is true, but callers are not authenticated: set settings.MCP_PROXY_AUTH_MODE to token or jwt, or to none if a proxy in front authenticates callers" -}}
{{- end -}}
{{- if and .Values.secrets.credentialsKey.name (not (or .Values.secrets.documentsUrl.name (hasKey .Values.settings "MCP_PROXY_LOGINS_DIR"))) -}}
{{- fail "secrets.credentialsKey.name is set, but there is no persistent storage for logins: set secrets.documentsUrl.name to a Secret with a PostgreSQL URL" -}}
{{- end -}}
{{- if and .Values.secrets.signinClientSecret.name (not (get .Values.settings "MCP_PROXY_SIGNIN_CLIENT_ID")) -}}
{{- fail "secrets.signinClientSecret.name is set, which requires a client id: set settings.MCP_PROXY_SIGNIN_CLIENT_ID" -}}
{{- end -}}
{{- $inUse := or (ne $auth "none") .Values.ingress.enabled .Values.autoscaling.enabled -}}
{{- $several := gt (int (include "gateway.maxReplicas" .)) 1 -}}
{{- if and $inUse $several (not .Values.allowSeparateBudgets) -}}
{{- if not .Values.secrets.redisUrl.name -}}
{{- fail "each replica would count budgets separately: set secrets.redisUrl.name to a Secret with a Redis URL, or set replicaCount to 1, or allowSeparateBudgets to true" -}}
{{- end -}}
{{- if not .Values.secrets.sessionKeys.name -}}
{{- fail "replicas would not share MCP sessions: set secrets.sessionKeys.name to a Secret with a key of at least 32 characters (openssl rand -hex 32), or set replicaCount to 1, or allowSeparateBudgets to true" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.secrets.documentsOwnerUrl.name (not .Values.secrets.documentsUrl.name) -}}
{{- fail "secrets.documentsOwnerUrl.name is set: set secrets.documentsUrl.name as well, to a Secret with the URL for the gateway's role" -}}
{{- end -}}
{{- if and .Values.secrets.documentsUrl.name .Values.documents.existingClaim -}}
{{- fail "secrets.documentsUrl.name (PostgreSQL) and documents.existingClaim (a folder) are both set: set only one of them" -}}
{{- end -}}
{{- end -}}

{{- define "gateway.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "gateway.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The agent that a request has to name: the first of agents.json, AGENT where it is not known here. */}}
{{- define "gateway.trialAgent" -}}
{{- $required := get .Values.settings "MCP_PROXY_REQUIRE_AGENT" | toString -}}
{{- $file := get .Values.config.files "agents.json" -}}
{{- if kindIs "string" $file -}}{{- $file = fromJson $file -}}{{- end -}}
{{- if ne $required "false" -}}
{{- if .Values.config.existingConfigMap -}}
{{- if eq $required "true" -}}AGENT{{- end -}}
{{- else if and (kindIs "map" $file) (get $file "agents") -}}
{{- get (first (get $file "agents")) "name" -}}
{{- else if eq $required "true" -}}AGENT
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A request through `kubectl port-forward` that works with these values: the list of tools. */}}
{{- define "gateway.trialRequest" -}}
{{- $query := ternary (list "tenant_id=tenant_1") list (eq (include "gateway.authMode" .) "none") -}}
{{- with include "gateway.trialAgent" . -}}{{- $query = append $query (printf "agent=%s" (urlquery .)) -}}{{- end -}}
{{- $hosts := get .Values.settings "MCP_PROXY_ALLOWED_HOSTS" | toString | splitList "," -}}
curl -s 'localhost:8082/internal/mcp/tools{{ with $query }}?{{ join "&" . }}{{ end }}'
{{- if ne (include "gateway.authMode" .) "none" }} -H "Authorization: Bearer $TOKEN"{{ end -}}
{{- if and (first $hosts) (not (has "localhost" $hosts)) (not (has "*" $hosts)) }} -H 'Host: {{ first $hosts | trim }}'{{ end -}}
{{- end -}}
