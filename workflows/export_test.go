package workflows

// RunMap lets a test choose the versions of the step machine that the worker has.
var RunMap = runMap
