package model

import "strings"

const (
	// mostTokens is more than any model reads or writes in one call.
	mostTokens = 1 << 40
	// mostName is how many bytes of a name of a model are kept.
	mostName = 200
)

// Sound returns the response with counts and names as budgets and rows can keep them. What answers as
// a model is a server of others: it may count below zero, or beyond any number.
func (r Response) Sound() Response {
	r.Model, r.Finish = soundName(r.Model), Finish(soundName(string(r.Finish)))
	r.Usage = Usage{In: soundCount(r.Usage.In), Cached: soundCount(r.Usage.Cached), CacheWritten: soundCount(r.Usage.CacheWritten), Out: soundCount(r.Usage.Out)}
	return r
}

func soundCount(n int64) int64 { return min(max(n, 0), mostTokens) }

func soundName(s string) string {
	s = strings.ReplaceAll(s, "\x00", "")
	return strings.ToValidUTF8(s[:min(len(s), mostName)], "")
}
