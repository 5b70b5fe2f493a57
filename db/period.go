package db

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"github.com/google/uuid"
)

// clockSlack is how far the service's clocks, which make ids, may differ from the clock of
// Postgres, which makes times.
const clockSlack = time.Hour

// FirstID returns the smallest id (UUIDv7) that can be made at t. Ids are in the order of
// time, and there is an index on them.
func FirstID(t time.Time) (id uuid.UUID) {
	const bits = 48
	ms := min(max(t.UnixMilli(), 0), 1<<bits-1)
	binary.BigEndian.PutUint64(id[:], uint64(ms)<<(64-bits))
	return id
}

// IDsOf returns the ids, from low on and before high, that rows of a period can have; nil
// where the period is open. A list adds them to its filter by time, so that it begins where
// the period ends.
func IDsOf(from, to *time.Time) (low, high *uuid.UUID) {
	if from != nil {
		id := FirstID(from.Add(-clockSlack))
		low = &id
	}
	if to != nil {
		id := FirstID(to.Add(clockSlack))
		high = &id
	}
	return low, high
}

// namePrefix begins the names that we give to executions; the id follows.
const namePrefix = "exec_"

// IDsNamed returns the ids, from low on and before high, of the executions whose names of ours begin so.
// ours is false for the beginning of no such name.
func IDsNamed(begins string) (low, high *uuid.UUID, ours bool) {
	const first, last = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
	text, cut := strings.CutPrefix(strings.ToLower(begins), namePrefix)
	if !cut || len(text) > len(first) {
		return nil, nil, false
	}
	for i := range len(text) { // hyphens have their places
		if (text[i] == '-') != (first[i] == '-') {
			return nil, nil, false
		}
	}
	from, err := uuid.Parse(text + first[len(text):])
	if err != nil {
		return nil, nil, false
	}
	to, err := uuid.Parse(text + last[len(text):])
	if err != nil {
		return nil, nil, false
	}
	for i := len(to) - 1; i >= 0; i-- { // the id after it
		if to[i]++; to[i] != 0 {
			return &from, &to, true
		}
	}
	return &from, nil, true
}

// Within returns the period that is in both periods; nil where one is open.
func Within(low, high, otherLow, otherHigh *uuid.UUID) (from, to *uuid.UUID) {
	from, to = low, high
	if from == nil || otherLow != nil && bytes.Compare(otherLow[:], from[:]) > 0 {
		from = otherLow
	}
	if to == nil || otherHigh != nil && bytes.Compare(otherHigh[:], to[:]) < 0 {
		to = otherHigh
	}
	return from, to
}
