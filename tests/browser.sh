#!/bin/sh
# tests/browser.sh PAGE…: opens reports in a headless Chromium without network, as they are and with every cycle
# clicked. Fails on any message of the console and on a cycle without its tree. Pictures for the eye go into
# the folder $PICTURES, if it is set: wide and narrow, light and dark.
set -eu
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "browser: no Chromium here (Debian: apt-get install chromium)"; exit 1; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
open() { # open FILE options…: the page after its scripts on standard output, the console's words in $work/console
    file=$1; shift
    "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
        --host-resolver-rules='MAP * ~NOTFOUND' --enable-logging=stderr --virtual-time-budget=5000 "$@" \
        "file://$file" 2>"$work/log"
    grep -E 'CONSOLE|Uncaught|Refused' "$work/log" >"$work/console" || true
}
for page in "$@"; do
    page=$(realpath "$page")
    open "$page" --dump-dom >"$work/dom"
    if [ -s "$work/console" ]; then echo "browser: $page says:"; cat "$work/console"; exit 1; fi
    sed '/http-equiv="Content-Security-Policy"/,/>/d' "$page" >"$work/clicked.html"
    cat >>"$work/clicked.html" <<'SCRIPT'
<script>
(function () {
  var bad = 0, cycles = document.querySelectorAll(".cycle");
  document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  cycles.forEach(function (s) {
    s.click();
    var box = s.closest(".answer").nextElementSibling;
    if (!box || !box.classList.contains("tree") || !box.querySelector("li")) { bad++; }
  });
  var wide = document.documentElement.scrollWidth > window.innerWidth + 1;
  document.title = "clicked " + cycles.length + ", bad " + bad + (wide ? ", wider than the window" : "");
})();
</script>
SCRIPT
    for width in 1200 500; do
        open "$work/clicked.html" --window-size=$width,900 --dump-dom >"$work/dom"
        title=$(sed -n 's/.*<title>\(clicked[^<]*\)<.*/\1/p' "$work/dom")
        case "$title" in
        clicked*", bad 0") [ ! -s "$work/console" ] || { cat "$work/console"; exit 1; } ;;
        *) echo "browser: $page at $width: ${title:-its script did not run}"; cat "$work/console"; exit 1 ;;
        esac
    done
    if [ -n "${PICTURES:-}" ]; then
        mkdir -p "$PICTURES"
        for scheme in 0-dark 1-light; do
            for width in 1200 500; do
                open "$page" --blink-settings=preferredColorScheme=${scheme%-*} --window-size=$width,6000 \
                    --screenshot="$PICTURES/$(basename "$page" .html)-${scheme#*-}-$width.png" >/dev/null
            done
        done
    fi
    echo "browser: $page: no message, $title"
done
