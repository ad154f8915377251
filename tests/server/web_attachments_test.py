"""Files that people attach to messages on the web page, in headless Chromium with a server that plays its part from a script."""


def pdf_with(words):
    """A PDF file of one page with these words."""
    drawing = f"BT /F1 24 Tf 72 700 Td ({words}) Tj ET" if words else "0 0 100 100 re f"
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
               "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
               f"<< /Length {len(drawing)} >>\nstream\n{drawing}\nendstream", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return (f"{out}xref\n0 6\n0000000000 65535 f \n{table}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n").encode()


def written(folder, name, data):
    """The path of a new file."""
    (folder / name).write_bytes(data)
    return str(folder / name)


def test_files_of_text_are_sent_and_others_refused(page, tmp_path):
    b = page.b
    page.fresh()
    b.one("#file-input").send_keys(written(tmp_path, "notes.txt", "Grüße\n".encode()))
    b.see("notes.txt", "#files")
    for name, data, reason in (("image.png", b"\x89PNG\r\n\x1a\n\0\0", "reads text only"), ("bytes.bin", b"\xff\xfe\0\0", "not a text file"), ("zeros.txt", b"a\0b", "binary"),
                               ("huge.txt", b"x" * 300_000, "too large"), ("empty.txt", b"", "empty")):
        b.one("#file-input").send_keys(written(tmp_path, name, data))
        b.see(reason, "#composer-error")
    assert len(b.all("#files li")) == 1
    b.js("""const data = new DataTransfer(); data.items.add(new File(["dropped"], "drop.md"));
        for (const type of ["dragenter", "dragover", "drop"])
          document.body.dispatchEvent(new DragEvent(type, {bubbles: true, cancelable: true, dataTransfer: data}));""")
    b.see("drop.md", "#files")
    b.ask("read these")
    sent = page.fake.bodies[-1]["input"][0]["content"]
    assert sent == '<file name="notes.txt">\nGrüße\n</file>\n<file name="drop.md">\ndropped\n</file>\n\nread these', sent
    b.see("notes.txt", ".bubble")
    page.clean()


def test_the_words_of_pdf_files_are_sent(page, tmp_path):
    b = page.b
    page.fresh()
    b.one("#file-input").send_keys(written(tmp_path, "report.pdf", pdf_with("Rivers rise in spring")))
    b.see("report.pdf", "#files")
    for name, data, reason in (("pictures.pdf", pdf_with(""), "has no text"), ("broken.pdf", b"%PDF-1.4\nnothing", "no PDF file that can be read")):
        b.one("#file-input").send_keys(written(tmp_path, name, data))
        b.see(reason, "#composer-error")
    b.ask("read this")
    sent = page.fake.bodies[-1]["input"][0]["content"]
    assert sent == '<file name="report.pdf">\nRivers rise in spring\n</file>\n\nread this', sent
    page.clean()
