//go:build chaos

// Package failpoint lets the crash rig stop the service at the places where a
// crash would hurt most. In every normal build Hit does nothing; with the build
// tag chaos it asks the rig, over HTTP, and waits for its answer.
package failpoint

import (
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/google/uuid"
)

// Hit tells the rig at AGENTRUNTIME_FAILPOINT_URL which run reached the place, and goes
// on when it has answered. Without the variable it does nothing.
func Hit(point string, run uuid.UUID) {
	base := os.Getenv("AGENTRUNTIME_FAILPOINT_URL")
	if base == "" {
		return
	}
	resp, err := http.Get(base + "?point=" + url.QueryEscape(point) + "&run=" + run.String()) //nolint:gosec,noctx // the rig's own address, in test builds only
	if err != nil {
		return // the rig is gone: go on
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}
