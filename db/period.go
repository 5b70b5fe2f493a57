package db

import (
	"encoding/binary"
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
