package jqchild_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/edge/jqchild"
	"agentruntime/internal/maps/expression"
)

// Children leave the processor to those who answer callers, where no caller waits for them.
func TestChildrenAreNiceWhereTheyAreToBe(t *testing.T) {
	t.Parallel()
	own, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	require.NoError(t, err)
	for nice, want := range map[bool]int{false: own, true: own - 5} {
		p, err := jqchild.New(jqchild.Config{Children: 1, Nice: nice})
		require.NoError(t, err)
		t.Cleanup(p.Close)
		_, err = run(t, p, `1`)
		require.NoError(t, err)
		idle := p.Idle()
		require.Len(t, idle, 1)
		raised, err := syscall.Getpriority(syscall.PRIO_PGRP, idle[0])
		require.NoError(t, err)
		require.Equal(t, want, raised, "the system call counts from 20 down")
	}
}

// An expression that the processor has no time for was not evaluated. It is not wrong.
func TestExpressionWithoutTheProcessorIsNotWrong(t *testing.T) {
	t.Parallel()
	p := hasty(t, 1, 100*time.Millisecond)
	_, err := run(t, p, `1`)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(p.Idle()[0], syscall.SIGSTOP))
	_, err = run(t, p, `1`)
	busy, is := errors.AsType[*expression.BusyError](err)
	require.True(t, is, "%v", err)
	require.GreaterOrEqual(t, busy.Line(), time.Second)
	got, err := run(t, p, `1`)
	require.NoError(t, err, "another child evaluates it")
	require.Equal(t, "1", string(got[0]))
}
