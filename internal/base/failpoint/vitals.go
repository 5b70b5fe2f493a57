//go:build chaos

package failpoint

import (
	"fmt"
	"net/http"
	"os"
	"runtime/metrics"
	"time"
)

// vitalsEvery is how often the process says how it is.
const vitalsEvery = time.Second

// The soak asks for them; see test/soak. A process says them from its start on, whatever it
// does.
func init() { //nolint:gochecknoinits // in test builds only; no code of the product has to know of it
	if address := os.Getenv("AGENTRUNTIME_VITALS_URL"); address != "" {
		go sayVitals(address)
	}
}

// sayVitals posts the bytes of the live heap after the last collection, and the number of
// goroutines.
func sayVitals(address string) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/sched/goroutines:goroutines"}}
	for range time.Tick(vitalsEvery) {
		metrics.Read(samples)
		resp, err := http.Post(fmt.Sprintf("%s?pid=%d&heap=%d&goroutines=%d", address, os.Getpid(), samples[0].Value.Uint64(), samples[1].Value.Uint64()), "", http.NoBody) //nolint:gosec,noctx // the rig's own address, in test builds only
		if err == nil {
			_ = resp.Body.Close()
		}
	}
}
