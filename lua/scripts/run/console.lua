--- What a run says: lines on standard output, kept in console.log, and one line of progress on
-- standard error that is redrawn when that is a terminal and appears now and then otherwise.

local _, core = ...

local Console = {}
Console.__index = Console

local function duration(seconds)
   return core.use("plan").duration(seconds)
end

--- path: of the log, appended to; nil: none.
function Console.new(path)
   local self = setmetatable({}, Console)
   self.log = path and io.open(path, "a")
   self.is_live = core.system.is_terminal("stderr")
   self.started = core.system.clock()
   self.next_line = self.started + 15
   return self
end

function Console:clear()
   if self.is_drawn then
      io.stderr:write("\r\27[K")
      self.is_drawn = false
   end
end

function Console:line(text)
   self:clear()
   io.stdout:write(text, "\n")
   io.stdout:flush()
   if self.log then
      self.log:write(text, "\n")
      self.log:flush()
   end
end

--- Only into the log: somebody else shows it.
function Console:note(text)
   if self.log then
      self.log:write(text, "\n")
      self.log:flush()
   end
end

function Console:draw(text)
   local columns = core.system.width("stderr") - 1
   if utf8.len(text) and utf8.len(text) > columns then
      text = text:sub(1, utf8.offset(text, columns + 1) - 1)
   end
   io.stderr:write("\r\27[K", text)
   io.stderr:flush()
   self.is_drawn = true
end

--- `done` of `total` answers; `counted` of them were made since the start (for the time that is left).
function Console:progress(done, total, counted, what)
   local now = core.system.clock()
   local left = counted > 0 and (now - self.started) / counted * (total - done)
   local text = ("%d/%d  %s%s"):format(done, total, left and duration(left) .. " left  " or "", what)
   if self.is_live then
      self:draw(text)
   elseif now >= self.next_line then
      self.next_line = now + 15
      io.stderr:write(text, "\n")
      io.stderr:flush()
   end
end

function Console:close()
   self:clear()
   if self.log then
      self.log:close()
      self.log = nil
   end
end

return Console
