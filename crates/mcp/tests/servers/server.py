"""A server of the era without a handshake, made with the official Python SDK."""

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ToolAnnotations

server = MCPServer("era")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def count(to: int, context: Context) -> int:
    """Counts, and reports how far it has come."""
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"at {number}")
    return to


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def revision(context: Context) -> str:
    """Says which revision the client speaks."""
    return str(context.protocol_version)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def ask(context: Context) -> str | InputRequiredResult:
    """Asks the user for a size."""
    answers = context.input_responses
    if not answers:
        schema = {"type": "object", "properties": {"size": {"type": "integer", "default": 4}}}
        question = ElicitRequestFormParams(message="Which size?", requested_schema=schema)
        questions = {"size": ElicitRequest(method="elicitation/create", params=question)}
        return InputRequiredResult(input_requests=questions, request_state="asked")
    return f"{context.request_state}: {answers['size'].content}"


server.run("stdio")
