--- value, or the error `problem` where it is nil: for what returns nil and a message.
return function(value, problem)
   if value == nil then
      error(problem, 0)
   end
   return value
end
