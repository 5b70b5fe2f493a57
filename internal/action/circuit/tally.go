package circuit

// Tally is what a process has seen of a provider since it last said so. The zero Tally is nothing.
type Tally struct {
	// Calls are the first attempts of runs, and Failed those of them that failed. Further
	// attempts repeat what is known: with them, one verb that always fails would count many
	// times.
	Calls, Failed int
	// Streak is how many attempts have failed since the last success, or since the beginning
	// where Success is false.
	Streak  int
	Success bool
}

// Add returns the tally with one attempt more. first says that it is the first of its run.
func (t Tally) Add(v Verdict, first bool) Tally {
	if v == Unclear {
		return t
	}
	if first {
		t.Calls++
	}
	if v == Succeeded {
		t.Streak, t.Success = 0, true
		return t
	}
	if first {
		t.Failed++
	}
	t.Streak++
	return t
}

// Then returns the tally of what t and, after it, later have seen.
func (t Tally) Then(later Tally) Tally {
	streak := later.Streak
	if !later.Success {
		streak += t.Streak
	}
	return Tally{Calls: t.Calls + later.Calls, Failed: t.Failed + later.Failed, Streak: streak, Success: t.Success || later.Success}
}
