"""The routes of servers (contract §1)."""

from collections.abc import Sequence

from mcp_tools_proxy.api.openapi.answer_models import ErrorEnvelope, ServerAnswer
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import Answer, SharedAnswer, show_responses
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.api.servers.server_handlers import ServerHandlers
from mcp_tools_proxy.api.servers.server_models import ServerPath, ServersAnswer, ServersQuery
from mcp_tools_proxy.web.fast_routes import DirectRoute

PATH = "/internal/mcp/servers"

_NO_SERVER = SharedAnswer(
    "NoSuchServer", Answer("NOT_FOUND: mcp.json has no server with this id.", ErrorEnvelope)
)


def server_routes(build: RouteBuilder, servers: ServerHandlers) -> Sequence[DirectRoute]:
    """Build the routes."""
    listed = show_responses(ServersAnswer, "All servers in mcp.json.")
    reconnecting = show_responses(ServerAnswer, "")
    return (
        build.get(
            PATH,
            servers.list_servers,
            operation_id="list_servers",
            tag=Tag.STATUS,
            summary="Show the state of the downstream servers",
            description=(
                "Lists all servers and their state. With `offers`, operators with the right "
                "`audit` also get all items that one server offers."
            ),
            query=ServersQuery,
            responses={**listed, 404: _NO_SERVER},
            headers=TRACED,
        ),
        build.change(
            "POST",
            f"{PATH}/{{server_id}}/reconnect",
            servers.reconnect,
            operation_id="reconnect_server",
            tag=Tag.STATUS,
            summary="Reconnect a server",
            description=(
                "Reconnects at once on the replica that receives the request, without waiting "
                "for the next retry; a stdio server's process is restarted. Calls in flight end "
                "as if the connection was lost. Several requests in quick succession "
                "reconnect it only once. Requires the operator right `config`."
            ),
            path_parameters=ServerPath,
            responses={
                202: Answer("The server's current state. It is being reconnected.", ServerAnswer),
                **{status: it for status, it in reconnecting.items() if status != 200},
                404: _NO_SERVER,
            },
            headers=TRACED,
        ),
    )
