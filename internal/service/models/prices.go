package models

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"agentruntime/internal/models/model"
)

//go:embed prices.json
var pricesFile []byte

// Price is what a model costs, in US dollars for a million tokens. As written in the table: each is a
// decimal number.
type Price struct {
	Input json.Number `json:"input"`
	// CachedInput is for tokens that the provider has read before, CacheWrite for those that it keeps.
	// Without them they cost as much as others.
	CachedInput json.Number `json:"cached_input,omitempty"`
	CacheWrite  json.Number `json:"cache_write,omitempty"`
	Output      json.Number `json:"output"`
	// Source is the name of where the price is from.
	Source string `json:"source"`
	Note   string `json:"note,omitempty"`
}

// Prices is the table of prices, with where each is from and when that was read.
type Prices struct {
	Date    string            `json:"date"`
	Sources map[string]string `json:"sources"`
	Models  map[string]Price  `json:"models"`

	rates map[string]rates
}

// rates are the prices of a model in millionths of a dollar for a token.
type rates struct{ in, cached, written, out *big.Rat }

func readPrices(raw []byte) (Prices, error) {
	p := Prices{rates: map[string]rates{}}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("models: the table of prices: %w", err)
	}
	for name, price := range p.Models {
		if p.Sources[price.Source] == "" {
			return p, fmt.Errorf("models: the table of prices: %s has no source", name)
		}
		var r rates
		for _, of := range []struct {
			to              **big.Rat
			text, otherwise json.Number
		}{{&r.in, price.Input, ""}, {&r.cached, price.CachedInput, price.Input}, {&r.written, price.CacheWrite, price.Input}, {&r.out, price.Output, ""}} {
			text := cmp.Or(of.text, of.otherwise)
			value, ok := new(big.Rat).SetString(string(text))
			if !ok || value.Sign() < 0 {
				return p, fmt.Errorf("models: the table of prices: %s has a price that is no number", name)
			}
			*of.to = value
		}
		p.rates[name] = r
	}
	return p, nil
}

// Cost returns what the usage costs in millionths of a dollar, rounded up; 0 where the table does not
// have the model. A name that ends with a date, or with latest, has the price of the name without.
func (p Prices) Cost(name string, u model.Usage) int64 {
	r, known := p.of(name)
	if !known {
		return 0
	}
	cached := min(u.Cached, u.In)
	written := min(u.CacheWritten, u.In-cached)
	sum := new(big.Rat)
	for _, part := range []struct {
		tokens int64
		rate   *big.Rat
	}{{u.In - cached - written, r.in}, {cached, r.cached}, {written, r.written}, {u.Out, r.out}} {
		sum.Add(sum, new(big.Rat).Mul(new(big.Rat).SetInt64(max(part.tokens, 0)), part.rate))
	}
	whole, rest := new(big.Int).QuoRem(sum.Num(), sum.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() {
		return int64(1) << 62
	}
	return whole.Int64()
}

// dated is what makers add to the name of a model: 20251001, 2024-08-06, 0613, latest.
var dated = regexp.MustCompile(`-([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}|latest)$`)

func (p Prices) of(name string) (rates, bool) {
	name = strings.ToLower(name)
	if r, known := p.rates[name]; known {
		return r, true
	}
	r, known := p.rates[dated.ReplaceAllString(name, "")]
	return r, known
}
