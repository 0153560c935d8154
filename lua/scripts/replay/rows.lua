--- cop.rows: target and draft rows that were recorded, by another program or by a run of ours.
--
--     local rows = assert(cop.rows { path = "rows.safetensors" })   -- the layout: lua/recorded/recorded.h
--     rows:target(3), rows:draft(3, 0.7)   -- literal rows: the laws after entry 3, counted from 0 as in the file
--
-- tokens and parents make a trie of prefixes; rows.positions are the entries at which a cycle may begin.

local cop, core = ...

local Rows = { __name = "coppice.rows" }
Rows.__index = Rows

function Rows:__tostring()
   return ("cop.rows \"%s\" (%d rows of %d tokens, %d positions)"):format(self.path, self.count, self.vocab,
      #self.positions)
end

--- The law after token i, counted from 0 as in the file; temperature defaults to 1. nil: no row was recorded.
-- The second value is the mass that was not recorded, which is spread evenly over the tokens that were not.
function Rows:target(i, temperature)
   return self.file:law("target", i, temperature or 1)
end

function Rows:draft(i, temperature)
   return self.file:law("draft", i, temperature or 1)
end

--- Tokens of the text before that of entry i, and levels that a cycle could draft there.
function Rows:place(i)
   local n = 0
   while self.parents[i + 1] >= 0 do
      i, n = self.parents[i + 1], n + 1
   end
   return self.context + n, self.room - n
end

function core.is_rows(value)
   return getmetatable(value) == Rows
end

function cop.rows(given)
   local o = core.options("cop.rows", given, { { "path", "string", required = true, positional = true } })
   local rows, message, code = core.recorded(o.path)
   if not rows then
      return nil, message, code
   end
   rows.path, rows.count = o.path, #rows.tokens
   local has_positions, has_parents = rows.positions ~= nil, rows.parents ~= nil
   rows.positions, rows.parents, rows.children, rows.below = rows.positions or {}, rows.parents or {}, {}, {}
   for i = 0, rows.count - 1 do
      rows.parents[i + 1] = has_parents and rows.parents[i + 1] or not has_parents and i - 1 or -1
      rows.positions[i + 1] = not has_positions and i or rows.positions[i + 1]
      rows.children[i], rows.below[i] = {}, {}
      local parent, token = rows.parents[i + 1], rows.tokens[i + 1]
      if parent >= 0 then
         -- of equal siblings, the first leads on
         rows.children[parent][token] = rows.children[parent][token] or i
         table.insert(rows.below[parent], i)
      end
   end
   return setmetatable(rows, Rows)
end
