// Compiled as part of the project's module only, whose versions count.
module cloud.google.com/go/storage

go 1.26.4
