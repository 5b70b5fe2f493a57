package models

import (
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/models/model"
)

func TestCostIsThatOfTheModelByItsName(t *testing.T) {
	t.Parallel()
	p, err := readPrices(pricesFile)
	require.NoError(t, err)
	in := model.Usage{In: 1000}
	for name, c := range map[string]struct {
		model string
		usage model.Usage
		want  int64
	}{
		"input":                 {"gpt-4o", in, 2500},
		"output":                {"gpt-4o", model.Usage{Out: 1000}, 10_000},
		"cached":                {"gpt-4o", model.Usage{In: 1000, Cached: 1000}, 1250},
		"cached and written":    {"claude-sonnet-4-5", model.Usage{In: 1000, Cached: 400, CacheWritten: 500}, 400*30/100 + 500*375/100 + 100*3},
		"no price for cached":   {"gpt-4o-2024-05-13", model.Usage{In: 1000, Cached: 1000}, 5000},
		"more cached than read": {"gpt-4o", model.Usage{In: 100, Cached: 1000, CacheWritten: 1000}, 125},
		"rounded up":            {"gpt-5-nano", model.Usage{In: 1}, 1},
		"nothing":               {"gpt-4o", model.Usage{}, 0},
		"a date":                {"gpt-4o-2024-08-06", in, 2500},
		"a date with a price":   {"gpt-4o-2024-05-13", in, 5000},
		"a date in one":         {"claude-haiku-4-5-20251001", in, 1000},
		"the latest":            {"claude-opus-4-5-latest", in, 5000},
		"upper case":            {"GPT-4o", in, 2500},
		"another size":          {"gpt-4o-mini", in, 150},
		"another version":       {"claude-sonnet-4-9", in, 0},
		"another kind":          {"gpt-4o-audio", in, 0},
		"unknown":               {"llama", in, 0},
		"no name":               {"", in, 0},
	} {
		require.Equal(t, c.want, p.Cost(c.model, c.usage), name)
	}
}

func TestEachPriceHasASource(t *testing.T) {
	t.Parallel()
	p, err := readPrices(pricesFile)
	require.NoError(t, err)
	used := map[string]bool{}
	for _, price := range p.Models {
		used[price.Source] = true
	}
	require.Len(t, used, len(p.Sources), "a source that no price names is left over")
	for _, raw := range []string{
		`[]`,
		`{"models":{"m":{"input":1,"output":1}}}`,
		`{"sources":{"a":"x"},"models":{"m":{"input":1,"output":1,"source":"b"}}}`,
		`{"sources":{"a":"x"},"models":{"m":{"input":1,"source":"a"}}}`,
		`{"sources":{"a":"x"},"models":{"m":{"input":-1,"output":1,"source":"a"}}}`,
	} {
		_, err := readPrices([]byte(raw))
		require.Error(t, err, raw)
	}
}
