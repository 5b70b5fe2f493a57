package expression

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/itchyny/gojq"
)

// jq rounds in 64 bits, also what is whole already: it would lose digits beyond 2^53. So these functions
// are called by another name, under which whole numbers stay as they are.
const wholePrefix = "__whole_"

// roundings are the functions of jq that round a number.
func roundings() map[string]func(float64) float64 {
	return map[string]func(float64) float64{
		"floor": math.Floor, "ceil": math.Ceil, "round": math.Round, "trunc": math.Trunc, "fabs": math.Abs,
		"rint": math.RoundToEven, "nearbyint": math.RoundToEven,
	}
}

// withRoundings gives jq the functions that keep whole numbers.
func withRoundings() (options []gojq.CompilerOption) {
	for name, in64 := range roundings() {
		options = append(options, gojq.WithFunction(wholePrefix+name, 0, 0, func(v any, _ []any) any {
			if whole(v) {
				if name == "fabs" {
					return absolute(v)
				}
				return v
			}
			f, is := gojq.ToFloat64(v)
			if !is {
				return fmt.Errorf("%s cannot be applied to: %s", name, gojq.TypeOf(v))
			}
			return in64(f)
		}))
	}
	return options
}

func whole(v any) bool {
	switch n := v.(type) {
	case int, *big.Int:
		return true
	case json.Number:
		return !strings.ContainsAny(n.String(), ".eE")
	default:
		return false
	}
}

// absolute returns a whole number without its sign.
func absolute(v any) any {
	n, is := new(big.Int).SetString(fmt.Sprint(v), 10)
	if !is {
		return v
	}
	return n.Abs(n)
}
