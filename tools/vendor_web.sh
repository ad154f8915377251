#!/usr/bin/env bash
# Makes the libraries in src/server/web/vendor from released packages: tools/vendor_web.sh
# Needs Debian 12 with esbuild, and pip. docs/dependencies.md lists the versions.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/src/server/web/vendor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

apt-get download node-marked=4.2.3+ds+~4.0.7-2 node-highlight.js=9.18.5+dfsg1-2 node-dompurify libjs-pdf=2.14.305+dfsg-2
for package in ./*.deb; do dpkg-deb -x "$package" debian; done
pip download --quiet --no-deps --only-binary :all: nicegui==3.18.0 djangocms-katex==1.0.2
unzip -q nicegui-*.whl nicegui/static/dompurify.mjs
unzip -q djangocms_katex-*.whl 'djangocms_katex/static/djangocms_katex/vendor/katex/*'
modules=debian/usr/share/nodejs about=debian/usr/share/doc katex=djangocms_katex/static/djangocms_katex/vendor/katex

# bundle ENTRY OUTPUT BANNER [FLAG...]: one minified ES module.
bundle() {
  esbuild "$1" "${@:4}" --bundle --minify --format=esm --target=es2020 --legal-comments=none --log-level=warning \
    --banner:js="/*! $3 */" --outfile="$out/$2"
}

bundle $modules/marked/lib/marked.esm.js marked.js \
  "marked v4.2.3, MIT licence, https://github.com/markedjs/marked (marked.LICENSE)"
cp $about/node-marked/copyright "$out/marked.LICENSE"

cp nicegui/static/dompurify.mjs "$out/purify.js"
cp $about/node-dompurify/copyright "$out/purify.LICENSE"

{
  echo "/*! KaTeX v0.16.40, MIT licence, https://katex.org (katex.LICENSE) */"
  cat $katex/katex.min.js
  echo "export default globalThis.katex;"
} >"$out/katex.js"
# Of the three forms of each font, the one that every browser of today reads.
sed -E 's/,url\([^)]*\) format\("(woff|truetype)"\)//g' $katex/katex.min.css >"$out/katex.css"
mkdir -p "$out/fonts"
cp $katex/fonts/*.woff2 "$out/fonts/"
cp $katex/LICENSE "$out/katex.LICENSE"

about_pdf="PDF.js v2.14.305, Apache-2.0, https://mozilla.github.io/pdf.js (pdf.LICENSE)"
pdf=debian/usr/share/javascript/pdf/build
printf 'import * as pdf from "./%s/pdf.js";\nexport default pdf.default ?? pdf;\n' "$pdf" >pdf_entry.js
outside=(--external:canvas --external:fs --external:http --external:https --external:url --external:zlib)
bundle pdf_entry.js pdf.js "$about_pdf" "${outside[@]}"
# The worker stays a classic script, which workers run everywhere.
esbuild $pdf/pdf.worker.js --minify --target=es2020 --legal-comments=none --log-level=warning --banner:js="/*! $about_pdf */" \
  --outfile="$out/pdf.worker.js"
cp /usr/share/common-licenses/Apache-2.0 "$out/pdf.LICENSE"

languages=(bash cmake cpp cs css diff dockerfile go ini java javascript json kotlin lua makefile markdown php
  powershell python ruby rust scala sql swift typescript xml yaml)
lib=./$modules/highlight.js/lib
{
  echo "import hljs from \"$lib/highlight.js\";"
  for language in "${languages[@]}"; do
    echo "import language_$language from \"$lib/languages/$language.js\";"
    echo "hljs.registerLanguage(\"$language\", language_$language);"
  done
  echo 'export default hljs;'
} >entry.js
bundle entry.js highlight.js \
  "highlight.js v9.18.5 with ${#languages[@]} languages, BSD-3-Clause, https://github.com/highlightjs/highlight.js (highlight.LICENSE)"
cp $about/node-highlight.js/copyright "$out/highlight.LICENSE"
