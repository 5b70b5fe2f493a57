package db

import "time"

// Clock returns a clock in UTC and in microseconds, which is what Postgres stores: what a
// method returns for a new row equals what is read from it later. A nil now is time.Now.
func Clock(now func() time.Time) func() time.Time {
	if now == nil {
		now = time.Now
	}
	return func() time.Time { return now().UTC().Truncate(time.Microsecond) }
}

// UTC returns the time in UTC, nil for none. Postgres returns times in the zone of the
// process.
func UTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
