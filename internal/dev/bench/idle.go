package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// idleShare is how much of one core others may use on a machine that counts as idle. A ratio
// of two rates moves by less than 5 % then, on two cores.
const idleShare = 0.1

// others is how much of a core was used by others than this process and its descendants.
type others struct{ before, during float64 }

func (o others) idle() bool { return o.before <= idleShare && o.during <= idleShare }

func (o others) print(w io.Writer) error {
	verdict := "the machine is idle"
	if !o.idle() {
		verdict = fmt.Sprintf("the machine is NOT IDLE (more than %.1f), so the goals say little", idleShare)
	}
	_, err := fmt.Fprintf(w, "others used %.2f cores before and %.2f during the measurement: %s\n\n", o.before, o.during, verdict)
	return err
}

// beside returns how much of a core others use while f runs. Descendants that end while f runs
// count as others, so f must not start any.
func beside(f func() error) (float64, error) {
	busy, own, began := Busy(), CPU(), time.Now()
	err := f()
	share := (Busy() - busy - (CPU() - own)).Seconds() / time.Since(began).Seconds()
	return max(share, 0), err
}

// quiet does nothing for a second.
func quiet(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
		return nil
	}
}

// Busy returns the CPU time that the machine has spent since it was started, on all cores. What
// a host took away from a virtual machine is part of it. It is 0 where /proc/stat is missing.
func Busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return busyOf(string(text))
}

// busyOf reads the line "cpu user nice system idle iowait irq softirq steal …", in clock ticks.
func busyOf(stat string) time.Duration {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	var ticks int64
	for i, field := range fields {
		// user, nice, system, irq, softirq, steal; the rest is idle or is counted in user.
		if i >= 1 && i <= 8 && i != 4 && i != 5 {
			n, _ := strconv.ParseInt(field, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick
}
