--- The token view of a report: some answers, each token coloured by where it came from, and the tree of any
-- cycle with what was rejected.
--
-- What is shown is bounded, so that the page stays small: a few answers of each arm, their first tokens, the
-- first nodes of a tree. Every text comes from a model and is hostile: it goes into the page escaped, and into
-- the data of trees as JSON without "<".

local cop, core = ...

local tokens = {}

local shown_prompts, shown_tokens, shown_nodes = 2, 256, 64
local most_answers = 24     -- of a group
local most_data = 1500000   -- bytes of trees on a page

local decode = core.system.json.decode

-- ---- From the trace ------------------------------------------------------------------------------

local function rows_of(trace, sql, ...)
   local rows, problem = trace:rows(sql, ...)
   return rows or error(problem, 0)
end

--- The bytes of a token, or its number where there is no tokenizer.
local function piece_of(tokenizer, id)
   local ok, piece = pcall(function() return tokenizer:piece(id) end)
   return ok and piece or ("⟨%d⟩"):format(id)
end

--- A cycle as the page needs it: nodes with text and fate, the last token, times.
local function cycle_of(row, tokenizer)
   local drafted, accepted = decode(row.tokens), {}
   for _, node in ipairs(decode(row.accepted)) do
      accepted[node] = true
   end
   local cycle = { number = row.cycle, root = piece_of(tokenizer, row.root), parents = decode(row.parents), pieces = {},
      path = decode(row.accepted), accepted = accepted, last = piece_of(tokenizer, row.last), origin = row.origin,
      nodes = row.nodes, kept = row.kept, logprobs = decode(row.logprobs), context = row.context_length,
      draft = row.draft_us, score = row.score_us, host = row.verify_us + row.commit_us + row.other_us }
   for i, id in ipairs(drafted) do
      cycle.pieces[i] = piece_of(tokenizer, id)
   end
   return cycle
end

--- Tokens of a cycle that are in the answer: { text =, depth = | origin = }, in order.
local function said(cycle)
   local list = {}
   for depth, node in ipairs(cycle.path) do
      list[depth] = { text = cycle.pieces[node], depth = depth }
   end
   list[#list + 1] = { text = cycle.last, origin = cycle.nodes > 0 and cycle.origin or "alone" }
   return table.move(list, 1, math.min(cycle.kept, #list), 1, {})
end

local function answer_of(trace, arm, prompt, tokenizer)
   local request = rows_of(trace, "SELECT id, prompt, question, category, n_tokens, forward_passes, finish FROM"
      .. " requests WHERE arm = ? AND prompt = ? AND repeat = 1 AND turn = 1 AND error IS NULL AND drafted NOT NULL",
      arm.id, prompt)[1]
   if not request then
      return nil
   end
   local answer, n = { arm = arm.name, request = request, cycles = {} }, 0
   for _, row in ipairs(rows_of(trace, "SELECT * FROM cycles WHERE request = ? ORDER BY cycle LIMIT ?", request.id,
      shown_tokens)) do
      if n < shown_tokens then
         local cycle = cycle_of(row, tokenizer)
         answer.cycles[#answer.cycles + 1], n = cycle, n + cycle.kept
      end
   end
   answer.shown = n
   return answer
end

--- group.answers = { { prompt =, question =, category =, answers = … }, … } for every group of told.result.
function tokens.add(told, trace, groups, tokenizer)
   for g, group in ipairs(groups) do
      local list, count = {}, 0
      for _, row in ipairs(rows_of(trace, "SELECT DISTINCT prompt FROM requests WHERE arm = ? AND error IS NULL"
         .. " ORDER BY prompt LIMIT ?", group.arms[1].id, shown_prompts)) do
         local entry = { prompt = row.prompt }
         for _, arm in ipairs(group.arms) do
            local answer = not arm.is_plain and count < most_answers and answer_of(trace, arm, row.prompt, tokenizer)
            if answer then
               entry[#entry + 1], count = answer, count + 1
            end
         end
         list[#list + 1] = #entry > 0 and entry or nil
      end
      told.result.groups[g].answers = list
   end
end

--- The tokenizer of a stored run's target, where its file is still there.
function tokens.tokenizer_of(manifest)
   local target = manifest.identity.target
   local path = type(target) == "table" and target.path
   if type(path) ~= "string" or core.system.kind(path) == nil then
      return nil
   end
   local ok, tokenizer = pcall(cop.tokenizer, { path = path })
   return ok and tokenizer or nil
end

-- ---- On the page ---------------------------------------------------------------------------------

tokens.style = [[
:root { --drafted-1: #dbe9f6; --drafted-2: #b9d6f0; --drafted-3: #94c1e8; --drafted-4: #74afe0; --recovered: #fbdcc0;
  --bonus: #cdebd6; }
@media (prefers-color-scheme: dark) {
  :root { --drafted-1: #1d2f40; --drafted-2: #1f405c; --drafted-3: #215078; --drafted-4: #246094; --recovered: #5c3713;
    --bonus: #1d4c30; } }
h4 { margin: 1rem 0 0; font-size: .95rem; } h4 span { font-weight: 400; color: var(--quiet); }
.answer { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.9; background: var(--shade);
  padding: .6rem .8rem; border-radius: .4rem; margin: .3rem 0 1rem; font-family: ui-monospace, monospace;
  font-size: .85rem; }
.cycle { cursor: pointer; border-radius: .2rem; }
.cycle:hover, .cycle:focus, .cycle.open { outline: 2px solid var(--ink); }
.cycle i { font-style: normal; padding: .1rem 0; box-shadow: inset -1px 0 var(--page); }
.d1 { background: var(--drafted-1); } .d2 { background: var(--drafted-2); } .d3 { background: var(--drafted-3); }
.d4 { background: var(--drafted-4); } .bonus { background: var(--bonus); border-bottom: 2px solid; }
.recovered { background: var(--recovered); border-bottom: 2px dotted; }
.key i { font-style: normal; padding: .1rem .4rem; margin-right: .4rem; white-space: nowrap; display: inline-block; }
.tree { border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem; margin: -.6rem 0 1rem;
  font-size: .85rem; overflow-x: auto; }
.tree ul { list-style: none; margin: 0; padding-left: .9rem; border-left: 1px solid var(--line); }
.tree > ul { border: 0; padding: 0; } .tree code { white-space: pre-wrap; padding: 0 .15rem; }
.tree .rejected code { text-decoration: line-through; } .tree small { color: var(--quiet); }
]]

--- Reads the trees' data, and writes a cycle's tree below its answer: text only, never markup.
tokens.script = [[
(function () {
  var element = document.getElementById("trees");
  if (!element) { return; }
  var trees = JSON.parse(element.textContent);
  function make(name, text, kind) {
    var e = document.createElement(name);
    if (text !== undefined) { e.textContent = text; }
    if (kind) { e.className = kind; }
    return e;
  }
  function visible(text) { return text.replace(/\n/g, "\u23ce").replace(/\t/g, "\u21e5"); }
  function children(tree, parent, depth) {
    var list = make("ul");
    tree.p.forEach(function (p, i) {
      if (p !== parent) { return; }
      var kept = tree.a.indexOf(i + 1) >= 0;
      var item = make("li", undefined, kept ? "kept" : "rejected");
      item.appendChild(make("code", visible(tree.t[i]), kept ? "d" + Math.min(depth, 4) : ""));
      var probability = tree.l[i];
      item.appendChild(make("small", (kept ? " kept" : " rejected") +
        (probability === null ? "" : ", draft " + Math.exp(probability).toPrecision(2))));
      var below = children(tree, i + 1, depth + 1);
      if (below.childNodes.length) { item.appendChild(below); }
      list.appendChild(item);
    });
    return list;
  }
  function panel(tree) {
    var box = make("div", undefined, "tree");
    box.appendChild(make("div", tree.h));
    var top = make("ul"), root = make("li");
    root.appendChild(make("code", visible(tree.r)));
    root.appendChild(make("small", " the last token before the cycle"));
    root.appendChild(children(tree, 0, 1));
    top.appendChild(root);
    box.appendChild(top);
    if (tree.m) { box.appendChild(make("small", "and " + tree.m + " more nodes")); }
    var last = make("div", "then ");
    last.appendChild(make("code", visible(tree.e), tree.o));
    last.appendChild(make("small", " " + tree.w));
    box.appendChild(last);
    return box;
  }
  function toggle(span) {
    var answer = span.closest(".answer"), old = answer.nextElementSibling, same = span.classList.contains("open");
    answer.querySelectorAll(".open").forEach(function (s) {
      s.classList.remove("open");
      s.setAttribute("aria-expanded", "false");
    });
    if (old && old.classList.contains("tree")) { old.remove(); }
    var tree = trees[span.dataset.tree];
    if (same || !tree) { return; }
    span.classList.add("open");
    span.setAttribute("aria-expanded", "true");
    answer.after(panel(tree));
  }
  document.addEventListener("click", function (event) {
    var span = event.target.closest(".cycle");
    if (span) { toggle(span); }
  });
  document.addEventListener("keydown", function (event) {
    if ((event.key === "Enter" || event.key === " ") && event.target.classList.contains("cycle")) {
      event.preventDefault();
      toggle(event.target);
    }
  });
})();
]]

tokens.key = "<p class=\"key\"><i class=\"d1\">drafted at depth 1</i><i class=\"d2\">2</i><i class=\"d3\">3</i>"
   .. "<i class=\"d4\">4 and deeper</i><i class=\"recovered\">recovered after a rejection</i>"
   .. "<i class=\"bonus\">bonus after a whole path</i><i>no mark: nothing was drafted</i></p>\n"

local words = { recovered = "recovered: the target's own after a rejection",
   bonus = "bonus: every drafted level was kept",
   alone = "the target's own: nothing was drafted" }

--- Bytes that are whole characters; others are shown as their numbers.
local function readable(bytes)
   if utf8.len(bytes) then
      return bytes
   end
   return (bytes:gsub("[\128-\255]", function(byte) return ("‹%02X›"):format(byte:byte()) end))
end

--- Tokens with the parts of a character that they share joined: { { class =, text = }, … }
local function runs_of(cycle)
   local runs, waiting = {}, ""
   local list = said(cycle)
   for i, token in ipairs(list) do
      local class = token.depth and "d" .. math.min(token.depth, 4) or token.origin
      local text = waiting .. token.text
      if utf8.len(text) or i == #list or #text > 8 then
         runs[#runs + 1], waiting = { class = class, text = readable(text) }, ""
      else
         waiting = text
      end
   end
   return runs
end

local function microseconds(us)
   return us < 1000 and ("%.0f µs"):format(us) or ("%.2f ms"):format(us / 1000)
end

--- A cycle's tree as the script above reads it.
local function tree_of(cycle)
   local n = math.min(#cycle.pieces, shown_nodes)
   local list, probabilities = core.system.json.list, {}
   local t, p, a = list {}, list {}, list {}
   for i = 1, n do
      local value = cycle.logprobs[i]
      t[i], p[i] = readable(cycle.pieces[i]), cycle.parents[i]
      probabilities[i] = type(value) == "number" and value or core.system.json.null
   end
   for _, node in ipairs(cycle.path) do
      a[#a + 1] = node
   end
   local origin = cycle.nodes > 0 and cycle.origin or "alone"
   return {
      h = ("cycle %d, at position %d: %d drafted, %d kept; D %s, V %s, H %s"):format(cycle.number, cycle.context + 1,
         cycle.nodes, #cycle.path, microseconds(cycle.draft), microseconds(cycle.score), microseconds(cycle.host)),
      r = readable(cycle.root), t = t, p = p, a = a, l = list(probabilities), e = readable(cycle.last), o = origin,
      w = words[origin] or origin, m = #cycle.pieces > n and #cycle.pieces - n or nil,
   }
end

--- state: { trees = list of JSON texts, bytes = }, of the whole page.
local function cycle_text(cycle, state, escape)
   local tree, out = core.system.json.encode(tree_of(cycle)):gsub("<", "\\u003c"), {}
   for i, run in ipairs(runs_of(cycle)) do
      out[i] = ("<i class=\"%s\">%s</i>"):format(run.class, escape(run.text))
   end
   if state.bytes + #tree > most_data then
      state.is_cut = true
      return "<span>" .. table.concat(out) .. "</span>"
   end
   state.trees[#state.trees + 1], state.bytes = tree, state.bytes + #tree
   return ("<span class=\"cycle\" tabindex=\"0\" role=\"button\" aria-expanded=\"false\" data-tree=\"%d\">%s</span>")
      :format(#state.trees - 1, table.concat(out))
end

local function answer_text(answer, state, escape)
   local out, r = {}, answer.request
   for i, cycle in ipairs(answer.cycles) do
      out[i] = cycle_text(cycle, state, escape)
   end
   local more = r.n_tokens - answer.shown
   return ("<h4>%s <span>%d tokens in %d passes, %s</span></h4>\n<div class=\"answer\">%s%s</div>\n"):format(
      escape(answer.arm), r.n_tokens, r.forward_passes, escape(r.finish), table.concat(out),
      more > 0 and (" … and %d more tokens"):format(more) or "")
end

--- The answers of a group.
function tokens.html(group, state, escape)
   local out = {}
   for i, entry in ipairs(group.answers or {}) do
      local r = entry[1].request
      local about = {}
      about[1] = r.question and r.question ~= "" and "id " .. r.question or nil
      about[#about + 1] = r.category
      out[#out + 1] = ("<details class=\"tokens\"%s><summary>Prompt %d%s, token by token</summary>\n%s"):format(
         i == 1 and " open" or "", entry.prompt, escape(#about > 0 and " (" .. table.concat(about, ", ") .. ")" or ""),
         tokens.key)
      for _, answer in ipairs(entry) do
         out[#out + 1] = answer_text(answer, state, escape)
      end
      out[#out + 1] = "</details>\n"
   end
   return table.concat(out)
end

--- What stands at the end of the page.
function tokens.foot(state)
   if #state.trees == 0 then
      return ""
   end
   local note = state.is_cut and "<p class=\"quiet\">Later cycles have no tree here, to keep the page small; trace.db"
      .. " has them all.</p>\n" or ""
   return ("%s<script type=\"application/json\" id=\"trees\">[%s]</script>\n<script>%s</script>\n"):format(note,
      table.concat(state.trees, ",\n"), tokens.script)
end

return tokens
