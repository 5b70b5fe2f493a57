package auth

import (
	"context"
	"sync"
	"time"

	"agentruntime/db/dbsqlc"
)

// together reads one key for all requests that wait for it. While one statement reads a key, the
// requests with the same key that come meanwhile wait, and the next statement reads and counts
// for all of them. So requests at once do not line up for the row of their tenant, and none is
// answered by a read that began before it came.
type together struct {
	present func(ctx context.Context, hash string, requests int32) (dbsqlc.PresentAPIKeyRow, error)

	mu   sync.Mutex
	keys map[string]*group // the group that waits, by the key whose read is under way; nil: none waits
}

// group are the requests that the next statement is for.
type group struct {
	requests int32
	done     chan struct{}
	row      dbsqlc.PresentAPIKeyRow
	err      error
}

// presentWait bounds a read for requests of which none may be left: statement_timeout.
const presentWait = time.Minute

// read returns the key, and how many requests were counted after this one by the same statement.
// Where there is not room for all of them, none is counted, and each tries alone.
func (t *together) read(ctx context.Context, hash string) (row dbsqlc.PresentAPIKeyRow, after int32, err error) {
	t.mu.Lock()
	waiting, underWay := t.keys[hash]
	if !underWay {
		t.keys[hash] = nil
		t.mu.Unlock()
		row, err = t.present(ctx, hash, 1)
		t.next(hash) //nolint:contextcheck // the next read is not of this request
		return row, 0, err
	}
	if waiting == nil {
		waiting = &group{done: make(chan struct{})}
		t.keys[hash] = waiting
	}
	after = waiting.requests // any order will do
	waiting.requests++
	t.mu.Unlock()
	select {
	case <-waiting.done:
	case <-ctx.Done():
		return dbsqlc.PresentAPIKeyRow{}, 0, context.Cause(ctx)
	}
	if waiting.err == nil && waiting.requests > 1 && len(waiting.row.Counted) > 0 && waiting.row.Counted[0] == 0 {
		row, err = t.present(ctx, hash, 1)
		return row, 0, err
	}
	return waiting.row, after, waiting.err
}

// next reads the key for those that wait, if any do, and so on.
func (t *together) next(hash string) {
	t.mu.Lock()
	waiting := t.keys[hash]
	if waiting == nil {
		delete(t.keys, hash)
		t.mu.Unlock()
		return
	}
	t.keys[hash] = nil
	t.mu.Unlock()
	go func() {
		// It belongs to no single request.
		ctx, cancel := context.WithTimeout(context.Background(), presentWait)
		defer cancel()
		waiting.row, waiting.err = t.present(ctx, hash, waiting.requests)
		close(waiting.done)
		t.next(hash)
	}()
}
