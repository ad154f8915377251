"""Servers of tools made with the official SDK: sdk_server.py KIND [PORT]
Kinds: stdio; http (events), json, stateless, each on a port; pages and legacy (the low-level classes) on stdio."""
import asyncio
import sys

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.stdio import stdio_server
from mcp.types import ToolAnnotations
from pydantic import BaseModel

KIND = sys.argv[1]
server = MCPServer("sdk", title="Server of the SDK", instructions="Use it well.")


class Weather(BaseModel):
    city: str
    degrees: float


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def get_weather(city: str) -> Weather:
    """Current weather of a city"""
    return Weather(city=city, degrees=18.5)


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers"""
    return a + b


@server.tool()
def fail() -> str:
    """Fails"""
    raise ValueError("it cannot be done")


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Takes its time, and tells how far it is"""
    for i in range(10):
        await ctx.report_progress(i, 10)
        await asyncio.sleep(seconds / 10)
    return "done at last"


@server.tool()
async def grow(ctx: Context) -> str:
    """Adds a tool"""
    server.add_tool(lambda: "new", name="added", description="Was added")
    await ctx.session.send_tool_list_changed()
    return "there is one more"


@server.tool()
async def ask_back(ctx: Context) -> str:
    """Asks the client for what it does not offer"""
    try:
        await ctx.session.list_roots()
    except Exception as error:
        return f"refused: {error}"
    return "answered"


@server.tool()
def counted() -> str:
    """How many sessions' first requests came to this process"""
    return "one"


@server.resource("notes://today", title="Today's notes")
def notes() -> str:
    return "Buy milk."


@server.prompt()
def review(code: str, tone: str = "kind") -> str:
    """Reviews code"""
    return f"Review this in a {tone} tone: {code}"


async def run_pages():
    """A low-level server whose list comes in pages."""
    async def list_tools(ctx, params):
        page = int(params.cursor) if params and params.cursor else 0
        tools = [types.Tool(name=f"tool{page}_{i}", description="One of many", input_schema={"type": "object", "properties": {}}) for i in range(5)]
        return types.ListToolsResult(tools=tools, next_cursor=str(page + 1) if page < 3 else None)

    async def call_tool(ctx, params):
        return types.CallToolResult(content=[types.TextContent(type="text", text=f"{params.name} was called"),
                                             types.ImageContent(type="image", data="AAAA", mime_type="image/png")])

    low = Server("pages", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await low.run(read, write, low.create_initialization_options())


if KIND == "stdio":
    server.run()
elif KIND == "pages":
    asyncio.run(run_pages())
else:
    server.run("streamable-http", port=int(sys.argv[2]), json_response=KIND == "json", stateless_http=KIND == "stateless")
