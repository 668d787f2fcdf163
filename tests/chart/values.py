"""Named sets of an operator's values; each is rendered and validated."""

from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]


def named(*names: str) -> dict[str, dict[str, str]]:
    """Return these ``secrets``, all in one Secret."""
    return {name: {"name": "gateway-secrets"} for name in names}


SHARED = named("redisUrl", "sessionKeys")
"""Requirements of several replicas in addition to a trial."""

VALUES: Mapping[str, Values] = {
    "default": {},
    "postgres and redis": {
        "secrets": {
            **SHARED,
            **named("documentsUrl", "documentsOwnerUrl", "stateUrl", "stateKey", "adminToken"),
            "redisUrl": {"name": "redis", "key": "url"},
        },
        "networkPolicy": {"egress": {"redisPorts": [6380]}},
        "imagePullSecrets": [{"name": "registry"}],
    },
    "metrics with a token": {
        "secrets": named("metricsToken"),
        "serviceMonitor": {"enabled": True},
    },
    "jwt": {
        "settings": {
            "MCP_PROXY_AUTH_MODE": "jwt",
            "MCP_PROXY_JWT_ISSUER": "https://login.example.com/",
            "MCP_PROXY_JWT_AUDIENCE": "mcp",
            "MCP_PROXY_JWT_JWKS_URL": "https://login.example.com:8443/jwks.json",
            "MCP_PROXY_SHUTDOWN_GRACE_S": 30.5,
            "MCP_PROXY_MAX_DOCUMENT_BYTES": 134217728,
        },
        "secrets": SHARED,
        "config": {
            "files": {
                "mcp.json": {
                    "mcpServers": {
                        "tickets": {
                            "type": "http",
                            "url": "http://tickets:8084/mcp",
                            "headers": {"Authorization": "Bearer ${TICKETS_TOKEN}"},
                        }
                    },
                    "defaultPresetId": "all",
                },
                "preset_all.json": '{"id": "all", "name": "All", "tools": []}\n',
                "agents.json": {"agents": []},
            }
        },
        "extraEnv": [
            {
                "name": "TICKETS_TOKEN",
                "valueFrom": {"secretKeyRef": {"name": "tickets", "key": "token"}},
            }
        ],
    },
    "logins to servers": {
        "settings": {
            "MCP_PROXY_AUTH_MODE": "jwt",
            "MCP_PROXY_JWT_ISSUER": "https://login.example.com:8444/",
            "MCP_PROXY_JWT_AUDIENCE": "https://gateway.example.com/mcp",
            "MCP_PROXY_JWT_JWKS_URL": "https://login.example.com:8444/jwks.json",
            "MCP_PROXY_PUBLIC_URL": "https://gateway.example.com",
            "MCP_PROXY_SIGNIN_CLIENT_ID": "gateway-pages",
        },
        "secrets": {
            **SHARED,
            **named("documentsUrl", "stateUrl", "stateKey", "credentialsKey", "signinClientSecret"),
        },
        "config": {
            "files": {
                "mcp.json": {
                    "mcpServers": {
                        "wiki": {
                            "url": "https://wiki.example.com/mcp",
                            "isolation": "user",
                            "auth": {
                                "type": "oauth",
                                "for": "user",
                                "authorizationServer": "https://id.example.com:9443",
                            },
                        }
                    }
                }
            }
        },
    },
    "ingress, autoscaling and ServiceMonitor": {
        "settings": {"MCP_PROXY_AUTH_MODE": "none"},
        "secrets": SHARED,
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "hosts": ["gateway.example.com"],
            "annotations": {"nginx.ingress.kubernetes.io/proxy-buffering": "off"},
            "tls": [{"hosts": ["gateway.example.com"], "secretName": "tls"}],
        },
        "autoscaling": {"enabled": True},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "networkPolicy": {
            "ingressFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]
        },
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "priorityClassName": "high",
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
    },
    "documents on a volume, and a tokens file": {
        "documents": {"existingClaim": "documents", "readOnly": False},
        "secrets": {**SHARED, "tokensFile": {"name": "tokens", "key": "file"}},
        "config": {"existingConfigMap": "mine"},
        "image": {"repository": "registry.example.com/gateway", "digest": "sha256:" + "0" * 64},
        "preStopSeconds": 0,
    },
    "one replica, bare": {
        "replicaCount": 1,
        "secrets": {"tokensFile": {"name": "tokens"}},
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "serviceAccount": {"create": False},
        "topologySpread": {"enabled": False},
        "fullnameOverride": "tools",
    },
}

REFUSED: Mapping[str, tuple[Values, str]] = {
    "a misspelt value": ({"replicas": 3}, "replicas"),
    "a misspelt value further in": ({"image": {"tags": "1"}}, "tags"),
    "a misspelt secret": ({"secrets": {"redisURL": {"name": "s"}}}, "redisURL"),
    "a misspelt setting": ({"settings": {"MCP_PROXY_LOGLEVEL": "debug"}}, "MCP_PROXY_LOGLEVEL"),
    "a secret among the settings": (
        {"settings": {"MCP_PROXY_ADMIN_TOKEN": "of an operator"}},
        "MCP_PROXY_ADMIN_TOKEN",
    ),
    "a setting among other variables": (
        {"extraEnv": [{"name": "MCP_PROXY_LOGLEVEL", "value": "debug"}]},
        "extraEnv",
    ),
    "a misspelt file": ({"config": {"files": {"mcp.jsn": {}}}}, "mcp.jsn"),
    "a number as text": ({"replicaCount": "2"}, "replicaCount"),
    "token without its file": ({"settings": {"MCP_PROXY_AUTH_MODE": "token"}}, "tokensFile"),
    "a tokens file that is not used": (
        {
            "settings": {"MCP_PROXY_AUTH_MODE": "jwt"},
            "secrets": {**SHARED, "tokensFile": {"name": "t"}},
        },
        "MCP_PROXY_AUTH_MODE",
    ),
    "replicas that count for themselves": (
        {"secrets": {"tokensFile": {"name": "t"}, **named("sessionKeys")}},
        "secrets.redisUrl.name",
    ),
    "replicas that do not share sessions": (
        {"secrets": {"tokensFile": {"name": "t"}, **named("redisUrl")}},
        "secrets.sessionKeys.name",
    ),
    "an ingress to a gateway that believes everybody": (
        {"ingress": {"enabled": True, "hosts": ["a.example.com"]}, "secrets": SHARED},
        "not authenticated",
    ),
    "an ingress without hosts": ({"ingress": {"enabled": True}}, "ingress.hosts"),
    "an owner without the gateway's role": (
        {"secrets": named("documentsOwnerUrl")},
        "secrets.documentsUrl.name",
    ),
    "logins that would go with the pod": (
        {"secrets": named("credentialsKey")},
        "secrets.documentsUrl.name",
    ),
    "the secret of no client": (
        {"secrets": named("signinClientSecret")},
        "settings.MCP_PROXY_SIGNIN_CLIENT_ID",
    ),
    "documents in two places": (
        {"documents": {"existingClaim": "d"}, "secrets": named("documentsUrl")},
        "documents.existingClaim",
    ),
}
"""Refused values, and the name in the message."""
