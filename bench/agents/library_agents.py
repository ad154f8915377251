"""An agent as a user of a library writes it: files and a shell as tools, and one question.

usage: library_agents.py openai-agents|pydantic-ai BASE_URL PROMPT"""

import asyncio
import os
import subprocess
import sys

ABOUT = "You work in a small repository of Python code, which is the current folder. Use the tools, then answer in one sentence."
MOST_TURNS = 12
MOST_TEXT = 4000


def list_files(folder: str = ".") -> str:
    """Lists the files of a folder.

    Args:
        folder: The folder's path.
    """
    try:
        return "\n".join(sorted(os.listdir(folder)))
    except OSError as error:
        return str(error)


def read_file(path: str) -> str:
    """Reads a file.

    Args:
        path: The file's path.
    """
    try:
        with open(path) as file:
            return file.read(MOST_TEXT)
    except (OSError, UnicodeError) as error:
        return str(error)


def write_file(path: str, text: str) -> str:
    """Writes a file. What it held is gone.

    Args:
        path: The file's path.
        text: All that the file is to hold.
    """
    try:
        with open(path, "w") as file:
            file.write(text)
        return "written"
    except OSError as error:
        return str(error)


def replace_text(path: str, old: str, new: str) -> str:
    """Replaces a text in a file.

    Args:
        path: The file's path.
        old: The text, as it is in the file.
        new: What stands there afterwards.
    """
    text = read_file(path)
    return write_file(path, text.replace(old, new)) if old in text else "the file does not have this text"


def run_command(command: str) -> str:
    """Runs a command in a shell, and returns what it prints.

    Args:
        command: The command.
    """
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    return f"status {done.returncode}\n{(done.stdout + done.stderr)[:MOST_TEXT]}"


TOOLS = [list_files, read_file, write_file, replace_text, run_command]


async def openai_agents(url, prompt):
    import agents
    import openai
    agents.set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=url, api_key="none", timeout=600)
    model = agents.OpenAIResponsesModel(model="default", openai_client=client)
    agent = agents.Agent(name="Helper", instructions=ABOUT, model=model, tools=[agents.function_tool(tool) for tool in TOOLS])
    result = agents.Runner.run_streamed(agent, prompt, max_turns=MOST_TURNS)
    async for _ in result.stream_events():
        pass
    return result.final_output


async def pydantic_ai(url, prompt):
    from pydantic_ai import Agent, UsageLimits
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    model = OpenAIChatModel("default", provider=OpenAIProvider(base_url=url, api_key="none"))
    agent = Agent(model, instructions=ABOUT, tools=TOOLS, retries=3)
    result = await agent.run(prompt, usage_limits=UsageLimits(request_limit=MOST_TURNS))
    return result.output


if __name__ == "__main__":
    library, base_url, question = sys.argv[1:]
    print(asyncio.run({"openai-agents": openai_agents, "pydantic-ai": pydantic_ai}[library](base_url, question)))
