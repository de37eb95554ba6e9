#!/usr/bin/awk -f
# Draws a program's terminal output as an SVG image.
#
#   terminal-svg.awk [-v from=REGEX] [-v until=REGEX] TYPESCRIPT
#
# docs/demo-live.svg was made from the output of
# `script -qec "scripts/demo-live.sh FOREBAY" TYPESCRIPT`, from '^4[.]' until '^6[.]'.
#
# `from` is the first line shown, `until` the first one that is not. The style sequences of
# forebay and its scripts are supported: bold, dim, and three colours.

BEGIN {
    width = 8.4; height = 18; margin = 16; bar = 28
    shown = from == ""
}

{
    sub(/\r+$/, "")
    plain = $0
    gsub(/\033\[[0-9;]*[A-Za-z]/, "", plain)
    if (!shown && plain ~ from) shown = 1
    else if (shown && until != "" && plain ~ until) exit
    if (shown && !(lines == 0 && plain == "")) line[++lines] = $0
}

# Escapes text for XML.
function escaped(text) {
    gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
    return text
}

# The styles for a sequence's parameters.
function style_of(parameters) {
    if (parameters == "1") return "b"
    if (parameters == "2") return "d"
    if (parameters == "32") return "g"
    if (parameters == "33") return "y"
    if (parameters == "1;31") return "r"
    return ""
}

# Columns of a text: its bytes without those that continue a character (UTF-8).
function columns(text) {
    gsub(/[\200-\277]/, "", text)
    return length(text)
}

# Each part has a fixed position and length, independent of the font.
function draw(text, y,    style, at, part, column, wide) {
    style = ""; column = 0
    while (text != "") {
        at = match(text, /\033\[[0-9;]*m/)
        part = at ? substr(text, 1, at - 1) : text
        wide = columns(part)
        if (part ~ /[^ ]/) {
            printf "<text xml:space=\"preserve\"%s x=\"%.1f\" y=\"%d\" textLength=\"%.1f\">" \
                "%s</text>\n", style == "" ? "" : " class=\"" style "\"", \
                margin + column * width, y, wide * width, escaped(part)
        }
        column += wide
        if (!at) break
        style = style_of(substr(text, at + 2, RLENGTH - 3))
        text = substr(text, at + RLENGTH)
    }
}

END {
    while (lines > 0 && line[lines] == "") lines--
    w = 80 * width + 2 * margin; h = lines * height + 2 * margin + bar
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" " \
        "width=\"%d\" height=\"%d\">\n", w, h, w, h
    print "<style>text{font:14px ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;" \
        "fill:#d0d7de}.b{font-weight:bold;fill:#fff}.d{fill:#8b949e}.g{fill:#3fb950}" \
        ".y{fill:#d29922}.r{font-weight:bold;fill:#ff7b72}</style>"
    printf "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#0d1117\"/>\n", w, h
    split("#ff5f57 #febc2e #28c840", dots, " ")
    for (i = 1; i <= 3; i++)
        printf "<circle cx=\"%d\" cy=\"16\" r=\"5\" fill=\"%s\"/>\n", margin + 18 * i - 12, dots[i]
    for (i = 1; i <= lines; i++) draw(line[i], bar + margin + i * height - 6)
    print "</svg>"
}
