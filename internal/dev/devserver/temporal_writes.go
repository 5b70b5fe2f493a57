package devserver

import (
	"strings"

	"go.temporal.io/server/common/metrics"
)

// writeCounter picks the main store's writes out of the server's metrics.
type writeCounter struct {
	metrics.Handler
	operation string
	count     func(operation string)
}

// WithTags implements metrics.Handler.
func (w writeCounter) WithTags(tags ...metrics.Tag) metrics.Handler {
	w.operation = operationOf(w.operation, tags)
	return w
}

// Counter implements metrics.Handler.
func (w writeCounter) Counter(name string) metrics.CounterIface {
	if name != metrics.PersistenceRequests.Name() {
		return w.Handler.Counter(name)
	}
	return metrics.CounterFunc(func(n int64, tags ...metrics.Tag) {
		operation := operationOf(w.operation, tags)
		if !writes(operation) {
			return
		}
		for range n {
			w.count(operation)
		}
	})
}

// StartBatch implements metrics.Handler.
func (w writeCounter) StartBatch(string) metrics.BatchHandler { return batch{w} }

type batch struct{ writeCounter }

// Close implements metrics.BatchHandler.
func (batch) Close() error { return nil }

func operationOf(operation string, tags []metrics.Tag) string {
	for _, t := range tags {
		if t.Key == metrics.OperationTagName {
			return t.Value
		}
	}
	return operation
}

// writes reports whether an operation of the store changes it, by its name.
func writes(operation string) bool {
	for _, verb := range []string{"Get", "List", "Read", "Count", "Describe"} {
		if strings.HasPrefix(operation, verb) {
			return false
		}
	}
	return operation != ""
}
