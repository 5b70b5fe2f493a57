//go:build !linux

package jqchild

import (
	"os"
	"runtime/metrics"
	"syscall"
	"time"
)

// self returns this program.
func self() (string, error) { return os.Executable() }

// apart keeps the signals of a terminal from the children: their parent ends them.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// confine bounds the memory of this process. It looks at the heap again and again, because
// systems other than Linux do not enforce a bound on the address space. It is for development.
func confine() error {
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
		for range time.Tick(10 * time.Millisecond) {
			if metrics.Read(sample); sample[0].Value.Uint64() > Memory {
				os.Exit(1) // the bound is passed
			}
		}
	}()
	return nil
}

// used reports that the time of the processor is not known.
func used(int) (time.Duration, bool) { return 0, false }

// yield does nothing.
func yield(int) {}
