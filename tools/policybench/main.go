// Command policybench has three engines decide the same 100 calls under the same
// policies and compares what a decision costs: ours (internal/kernel/governance), OPA and
// Cedar, each as a Go library within this process. They must agree on each decision, of each kind of
// condition alone too. It exits with 1 where they do not, or where ours is not the fastest:
// at what all three are asked for, and with more than 10 policies also where it says why.
//
// Cerbos is not among them: its module (v0.57.0) asks for Go 1.27.3, this one is built
// with 1.26.
//
// What one of the others cannot say is left out: windows, look-ups, how long a text is, days of the
// week, the hour of a zone with summer time, and regular expressions that are more than a beginning.
// Of the lengths of lists one is compared, because Cedar asks only whether a list is empty.
//
// Ours reads the arguments of a call as the bytes that were sent. The others are handed what
// they read from them, made before the clock runs. All three are asked for the decision
// alone; ours and Cedar name the policies that match too. Ours is measured once more with the
// reason and the explanation of each decision, which the others do not make. OPA has one
// rule per policy, the form that its rule index knows, and one for each group within another; Cedar
// has one policy per policy, with the verb and the provider in the scope.
package main

import (
	"context"
	"fmt"
	"os"
)

// engine decides about call i of the cases.
type engine interface {
	name() string
	decide(i int) (string, error)
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	seen := map[string]int{}
	for i, s := range alone() {
		engines, err := build(ctx, s)
		if err != nil {
			return err
		}
		decided := map[string]int{}
		if err := agree(s, engines, decided); err != nil {
			return err
		}
		if len(decided) < 2 {
			return fmt.Errorf("the calls decide too little about conditions %d: %v", i, decided)
		}
	}
	fmt.Printf("%-10s %-20s %18s %14s %16s\n", "policies", "engine", "CPU ns/decision", "bytes/decision", "allocs/decision")
	slow := 0
	for _, n := range []int{10, 100, 1000} {
		s := generate(n)
		engines, err := build(ctx, s)
		if err != nil {
			return err
		}
		if err := agree(s, engines, seen); err != nil {
			return err
		}
		costs, err := compare(engines, len(s.calls))
		if err != nil {
			return err
		}
		for i, e := range engines {
			fmt.Printf("%-10d %-20s %18.0f %14.0f %16.1f\n", n, e.name(), costs[i].nanoseconds, costs[i].bytes, costs[i].allocs)
		}
		for _, us := range costs[:mustLead(n)] {
			slow += notBelow(us, costs[own:])
		}
	}
	fmt.Printf("all engines agree: %v\n", seen)
	if len(seen) < 3 {
		return fmt.Errorf("the cases decide too little: %v", seen)
	}
	if slow > 0 {
		return fmt.Errorf("ours is not the fastest in %d comparisons", slow)
	}
	return nil
}

// mustLead is how many of ours have to be the fastest. With 10 policies most of the time of the one
// with reasons is for writing them.
func mustLead(policies int) int {
	if policies > 10 {
		return own
	}
	return 1
}

// notBelow counts the engines that cost no more than ours.
func notBelow(us cost, others []cost) (n int) {
	for _, they := range others {
		if us.nanoseconds >= they.nanoseconds {
			n++
		}
	}
	return n
}

// own is how many of the engines are ours.
const own = 2

// build returns the engines, ours first.
func build(ctx context.Context, s set) ([]engine, error) {
	o, err := newOPA(ctx, s)
	if err != nil {
		return nil, err
	}
	c, err := newCedar(s)
	if err != nil {
		return nil, err
	}
	us := newOurs(s)
	return []engine{us, withReasons{us}, o, c}, nil
}

// agree compares the engines' decisions, and counts them in seen.
func agree(s set, engines []engine, seen map[string]int) error {
	for i, c := range s.calls {
		want := ""
		for _, e := range engines {
			got, err := e.decide(i)
			if err != nil {
				return fmt.Errorf("%s on %s %s: %w", e.name(), c.verb(), c.args(), err)
			}
			if want == "" {
				want = got
				seen[got]++
			}
			if got != want {
				return fmt.Errorf("%s %s risk %s: %s says %s, %s says %s", c.verb(), c.args(), c.risk, engines[0].name(), want, e.name(), got)
			}
		}
	}
	return nil
}
