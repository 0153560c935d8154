--- Folders, hashes, and whole files.

local check, test, core = ...
local system = core.system
local folder = test.folder()

check.equal(system.hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
check.equal(system.folder(folder .. "/a/b//c"), true)
check.equal(system.folder(folder .. "/a/b//c"), true, "a second time")
check.equal(system.kind(folder .. "/a/b/c"), "folder")
check.equal(system.kind(folder .. "/none"), nil)

local path = folder .. "/a/file"
check.equal(system.write(path, "one\0two"), true)
check.equal(system.write(path, "abc"), true, "replaced")
check.equal(system.kind(path), "file")
check.equal(system.hash_file(path), system.hash("abc"))
check.equal(io.open(path):read("a"), "abc")

check.fails("io", "Not a directory", system.folder(path .. "/below"))
check.fails("io", "file", system.folder(path))
check.fails("io", "No such file", system.write(folder .. "/none/file", "x"))
check.fails("io", "none", system.hash_file(folder .. "/none"))

-- What is no file is not replaced by one.
local pipe = folder .. "/pipe"
check.shell("mkfifo '%s'", pipe)
check.fails("io", "File exists", system.write(pipe, "x"))
check.equal(check.shell("test -p '%s' && echo pipe", pipe), "pipe\n")

-- Nothing is left of a write that failed.
local names = io.popen("ls -A '" .. folder .. "/a'"):read("a")
check.equal(names, "b\nfile\n")

check.is(system.clock() <= system.clock())
check.equal(system.nearest("temprature", { "top_k", "temperature" }), "temperature")
check.equal(system.nearest("zzz", { "top_k", "temperature" }), nil)
