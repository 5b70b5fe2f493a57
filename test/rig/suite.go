package rig

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// Run runs the tests of a suite, so many at once, and returns the exit code. They wait for timers and
// for other processes: with one test for each core, three quarters of the machine's time are unused.
// The flag -parallel comes before it.
func Run(m *testing.M, atOnce int) int {
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err) // every test binary has the flag
	}
	return m.Run()
}

// Suite stands in for a test where something outlives one: a stack that all tests
// of a package share. TestMain makes it and closes it.
type Suite struct {
	testing.TB // what is not overridden below must not be called

	name     string
	mu       sync.Mutex
	cleanups []func()
	failed   atomic.Bool
}

// NewSuite returns a Suite; name shows in what it says.
func NewSuite(name string) *Suite { return &Suite{name: name} }

// Helper implements testing.TB.
func (s *Suite) Helper() {}

// Name implements testing.TB.
func (s *Suite) Name() string { return s.name }

// Failed implements testing.TB.
func (s *Suite) Failed() bool { return s.failed.Load() }

// Logf implements testing.TB.
func (s *Suite) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, s.name+": "+format+"\n", args...)
}

// Errorf implements testing.TB.
func (s *Suite) Errorf(format string, args ...any) {
	s.failed.Store(true)
	s.Logf(format, args...)
}

// FailNow implements testing.TB. There is no test to end, so the binary ends; what
// was started is stopped first.
func (s *Suite) FailNow() {
	s.failed.Store(true)
	s.Close()
	panic(s.name + ": what the tests share could not be had")
}

// Cleanup implements testing.TB: Close calls f.
func (s *Suite) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

// TempDir implements testing.TB.
func (s *Suite) TempDir() string {
	dir, err := os.MkdirTemp("", s.name+"-*")
	if err != nil {
		s.Errorf("temporary directory: %v", err)
		s.FailNow()
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Close calls what Cleanup was given, the last first.
func (s *Suite) Close() {
	for {
		s.mu.Lock()
		if len(s.cleanups) == 0 {
			s.mu.Unlock()
			return
		}
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		s.mu.Unlock()
		last()
	}
}
