--- Tables on a terminal and in Markdown.

local check, _, core = ...

local columns = { { title = "arm", align = "left" }, { title = "tokens/s" } }
local rows = { { "plain", "9.5" }, { "größer", "1234.5" }, { rule = true }, { "x" } }
check.list(core.table(columns, rows), {
   "arm     tokens/s", "──────  ────────", "plain        9.5", "größer    1234.5", "──────  ────────", "x",
})
check.list(core.markdown(columns, { { "a|b", "1" } }), { "| arm | tokens/s |", "| --- | ---: |", "| a\\|b | 1 |" })
