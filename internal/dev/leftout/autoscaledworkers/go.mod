// Compiled as part of the project's module only, whose versions count.
module go.temporal.io/auto-scaled-workers

go 1.26.4
