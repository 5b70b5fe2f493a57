package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// pairs is how often two scenarios are compared, each time in one round after the other. The median of
// an odd number is one of them. Single ratios were from 0.5 to 0.8 within a minute, and medians of nine
// from 0.55 to 0.65.
const pairs = 21

// comparison is what one scenario reaches of another one, pair by pair.
type comparison struct {
	what    string
	clients int
	// rates are the ratios of their rates, sorted; cpu is the ratio of their CPU times a request.
	rates []float64
	cpu   float64
}

// compare measures the two in turns. A machine that gets slower or faster meanwhile, and what the
// scenarios before have left to do, is the same for both then. Which of them goes first changes from
// pair to pair: what the first has left to do slows the second.
func (b *benchmark) compare(ctx context.Context, what string, clients int, one, other Op) (comparison, error) {
	c := comparison{what: what, clients: clients}
	var first error
	measure := func(op Op) Sample {
		s := Load(ctx, clients, b.Round, b.cost, op)
		if first == nil {
			first = s.FirstError
		}
		return s
	}
	measure(other) // what came before has left something to do
	ratios := make([]float64, 0, pairs)
	for i := range pairs {
		var x, y Sample
		if i%2 == 0 {
			x, y = measure(one), measure(other)
		} else {
			y, x = measure(other), measure(one)
		}
		c.rates = append(c.rates, x.Rate/y.Rate)
		ratios = append(ratios, float64(x.CPU)/float64(y.CPU))
	}
	slices.Sort(c.rates)
	slices.Sort(ratios)
	c.cpu = ratios[pairs/2]
	return c, first
}

// median is the ratio of the rates in the pair in the middle.
func (c comparison) median() float64 {
	if len(c.rates) == 0 {
		return 0
	}
	return c.rates[len(c.rates)/2]
}

func (c comparison) print(w io.Writer) error {
	if len(c.rates) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "%s at %d clients, in turns: %.2f of the rate, from %.2f to %.2f in %d pairs, and %.2f times the CPU\n\n",
		c.what, c.clients, c.median(), c.rates[0], c.rates[len(c.rates)-1], len(c.rates), c.cpu)
	return err
}
