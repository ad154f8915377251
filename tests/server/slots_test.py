"""llama-server's slots of a real model: a saved prompt is read again from few tokens in another process, an erased one is not."""

PROMPT = "In the year 1923 the town council of Millbrook voted, after long talks, to build a library. " * 20


def test_a_saved_slot_is_restored_by_another_process(serve, tmp_path):
    def start(number):
        return serve("--context", "2048", "--parallel", "2", "--read-ahead", "off", "--cache-disk", "0", "--cache-dir",
                     tmp_path / f"cache{number}", "--slot-save-path", tmp_path / "slots")

    def complete(server, slot):
        answer = server.ask("/completion", {"prompt": PROMPT, "n_predict": 40, "temperature": 0, "id_slot": slot, "ignore_eos": True})
        return answer["content"], answer["timings"]["prompt_n"]

    first = start(1)
    text, whole = complete(first, 1)
    assert whole > 300
    saved = first.ask("/slots/1?action=save", {"filename": "one.bin"})
    assert saved["n_saved"] == whole + 40
    assert complete(first, 1) == (text, 1)
    assert first.ask("/slots/1?action=erase", {})["n_erased"] == whole + 40
    again, read = complete(first, 1)
    assert again == text and read > whole / 2  # its states are gone

    other = start(2)
    assert other.ask("/slots/0?action=restore", {"filename": "one.bin"})["n_restored"] == saved["n_saved"]
    assert complete(other, 0) == (text, 1)
    assert other.ask("/slots/0?action=save", {"filename": "two.bin"})["n_saved"] == whole + 40
    status, answer = other.status("/slots/0?action=restore", {"filename": "../one.bin"})
    assert status == 400 and answer["error"]["param"] == "filename"
