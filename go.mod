module agentruntime

go 1.26.8
