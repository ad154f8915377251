"""What the cache forgets: one key's texts are not found by another's; a deleted conversation leaves no states and no sampled turns."""

import os
import signal
import sqlite3
import subprocess
import time

import pytest

from harness import paths
from harness.waiting import settled, wait_for

pytestmark = pytest.mark.any_model

KEYS = "ann key-of-ann\nbob key-of-bob\nteam1 key-of-team1 cache=all\nteam2 key-of-team2 cache=all\n"
TEXT = "The quetzalcoatl sleeps beneath the ninety-first pine. " * 60
OTHER_END = TEXT + "Another end. " * 60


def records(folder):
    return sorted(name for _, _, names in os.walk(folder) for name in names if name.endswith((".block", ".checkpoint")))


class Keys:
    """A server with four keys; states and conversations are on disk."""

    def __init__(self, serve, folder):
        keys, self.states = folder / "keys", folder / "states"
        keys.write_text(KEYS)
        keys.chmod(0o600)
        self.server = serve("--api-key-file", keys, "--sessions", folder / "sessions", "--cache-dir", self.states, "--cache-disk-worth", "0")

    def session(self, key):
        return self.server.ask("/v1/sessions", {}, key)["id"]

    def respond(self, key, said=TEXT, **fields):
        """The id of a response, and how many tokens of its prompt were cached."""
        body = {"input": said, "max_output_tokens": 8, "temperature": 0, "reasoning": {"effort": "none"}, **fields}
        answer = self.server.ask("/v1/responses", body, key)
        return answer["id"], answer["usage"]["input_tokens_details"]["cached_tokens"]

    def cached(self, key, said=TEXT, **fields):
        return self.respond(key, said, **fields)[1]

    def delete(self, path, key):
        self.server.ask(path, key=key, method="DELETE")

    def records(self):
        return set(records(self.states))

    def settled(self):
        """The states on disk once none is being written any more."""
        return settled(self.records, still=1)


@pytest.fixture
def keys(serve, tmp_path):
    return Keys(serve, tmp_path)


def test_a_key_finds_what_it_sent_and_what_keys_of_all_share(keys):
    session = keys.session("key-of-ann")
    keys.respond("key-of-ann", conversation=session)
    assert keys.cached("key-of-bob", store=False) == 0
    assert keys.cached("key-of-team1", store=False) == 0
    assert keys.cached("key-of-team2", store=False) > 100
    assert keys.cached("key-of-ann", "Go on, please.", conversation=session) > 100


def test_a_deleted_conversation_is_gone_from_disk_but_what_others_share_stays(keys):
    session = keys.session("key-of-ann")
    keys.respond("key-of-ann", conversation=session)
    keys.respond("key-of-ann", "Go on, please.", conversation=session)
    before = keys.settled()
    other = keys.respond("key-of-ann", OTHER_END)[0]  # goes on from what they have in common
    more = keys.settled()
    assert 0 < len(before) < len(more)
    keys.delete("/v1/sessions/" + session, "key-of-ann")
    left = keys.records()
    assert left < more, "they are removed before the deletion is answered"
    assert keys.cached("key-of-ann", "Go on, please.", previous_response_id=other) > 100
    keys.delete("/v1/responses/" + other, "key-of-ann")
    # The second response of that conversation still has it.
    assert keys.cached("key-of-ann", OTHER_END, store=False) > 100


def test_what_was_read_ahead_for_a_deleted_conversation_is_gone(keys):
    def ahead():
        return keys.server.ask("/metrics", key="key-of-ann").split("\nanabranch_read_ahead_tokens_total ")[1].split()[0]
    before, read = keys.settled(), ahead()
    session = keys.session("key-of-ann")
    keys.respond("key-of-ann", TEXT + "Think about it, and answer in two words.", conversation=session, max_output_tokens=400, reasoning={"effort": "high"})
    wait_for(lambda: ahead() != read, "the next prompt's beginning")
    assert keys.settled() > before
    keys.delete("/v1/sessions/" + session, "key-of-ann")
    assert keys.settled() == before


@pytest.mark.parametrize("pause", [0.1])
def test_also_if_the_server_ends_while_it_reads(keys, pause):
    before = keys.settled()
    session = keys.session("key-of-ann")
    keys.respond("key-of-ann", TEXT + "Think about it, and answer in two words.", conversation=session, max_output_tokens=400, reasoning={"effort": "high"})
    time.sleep(pause)  # at some time within the reading
    keys.server.restart(signal.SIGTERM)
    keys.delete("/v1/sessions/" + session, "key-of-ann")
    assert keys.settled() == before


def test_a_deleted_conversation_leaves_no_sampled_turns(keys):
    def turns():
        with sqlite3.connect(keys.states / "turns.db") as database:
            return {row[0] for row in database.execute("SELECT key FROM turns")}
    tool = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
    call = {"said": "What is 17 plus 4?", "tools": [tool], "tool_choice": "required", "max_output_tokens": 100}
    session, other = keys.session("key-of-ann"), keys.session("key-of-ann")
    keys.respond("key-of-ann", conversation=other, **call | {"said": "What is 5 plus 8?"})
    wait_for(lambda: len(turns()) == 1, "the other conversation's turn")
    before = turns()
    keys.respond("key-of-ann", conversation=session, **call)
    wait_for(lambda: len(turns()) == 2, "the conversation's turn")
    keys.delete("/v1/sessions/" + session, "key-of-ann")
    wait_for(lambda: turns() == before, "the turn to be removed, and no other")


def test_a_conversation_deleted_after_a_restart_is_gone(keys):
    text = "A text of bob's alone. " * 60
    whole = keys.session("key-of-bob")
    keys.respond("key-of-bob", text, conversation=whole)
    before = keys.settled()
    keys.server.restart()
    keys.delete("/v1/sessions/" + whole, "key-of-bob")
    assert keys.records() < before
    assert keys.cached("key-of-bob", text, store=False) == 0


def test_a_branch_keeps_no_later_states_and_goes_on_from_its_own(keys):
    tree = keys.session("key-of-ann")
    keys.respond("key-of-ann", "A text that the branch has. " * 60, conversation=tree)
    point = keys.server.ask("/v1/sessions/" + tree, key="key-of-ann")["messages"][-1]["id"]
    early = keys.settled()
    keys.respond("key-of-ann", "What only the first one was asked. " * 60, conversation=tree)
    later = keys.settled() - early
    branch = keys.server.ask(f"/v1/sessions/{tree}/branch", {"message": point}, "key-of-ann")["id"]
    keys.delete("/v1/sessions/" + tree, "key-of-ann")
    assert later and not later & keys.records()
    assert keys.cached("key-of-ann", "Go on, please.", conversation=branch) > 100


def test_an_answer_that_was_cut_is_forgotten_with_its_conversation(keys):
    cut, odd = keys.session("key-of-bob"), "A very odd text about llamas. " * 60
    body = {"conversation": cut, "input": odd, "stream": True, "max_output_tokens": 2000, "ignore_eos": True}
    connection = keys.server.connect()
    answer = keys.server.open("/v1/responses", body, "key-of-bob", connection=connection)
    while b"delta" not in answer.readline():
        pass
    answer.close()
    connection.close()
    keys.settled()
    keys.delete("/v1/sessions/" + cut, "key-of-bob")
    assert keys.cached("key-of-bob", odd, store=False) == 0


def test_what_chat_kept_goes_with_its_conversation(model, tmp_path):
    """On the command line, with the usual directory of the cache."""
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    place = ["--sessions", tmp_path / "chats"]
    subprocess.run([paths.PROGRAM, "chat", "-m", model, "--temp", "0", "--thinking", "off", "--max-tokens", "8", "--cache-disk-worth", "0", *place],
                   input=TEXT + "\n", env=environment, capture_output=True, text=True, timeout=300)
    assert records(tmp_path / "cache")
    subprocess.run([paths.PROGRAM, "sessions", "rm", "-y", "quetzal", *place], env=environment, capture_output=True, timeout=300)
    assert not records(tmp_path / "cache")
