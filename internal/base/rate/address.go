package rate

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// addressesMost is how many addresses are counted at once. An entry takes about 200 bytes,
// so all take 13 MB.
const addressesMost = 1 << 16

// AddressConfig says how many requests without a valid credential an address may make.
type AddressConfig struct {
	// PerMinute is the limit of an address.
	PerMinute int32
	// Loopback is that of the addresses of this machine.
	Loopback int32
}

// Addresses counts, in this process, the requests of each address that end without a valid
// credential. What was not used for longest is forgotten where there are too many addresses,
// so the counts are approximate.
type Addresses struct {
	cfg AddressConfig

	mu     sync.Mutex
	counts *simplelru.LRU[string, addressCount]
}

type addressCount struct {
	minute, used int64
}

// NewAddresses checks the configuration.
func NewAddresses(cfg AddressConfig) (*Addresses, error) {
	if cfg.PerMinute < 1 || cfg.Loopback < 1 {
		return nil, errors.New("rate: an address needs a limit of at least 1")
	}
	counts, err := simplelru.NewLRU[string, addressCount](addressesMost, nil)
	if err != nil {
		return nil, fmt.Errorf("rate: %w", err)
	}
	return &Addresses{cfg: cfg, counts: counts}, nil
}

// See returns the window of an address at now, without counting.
func (a *Addresses) See(address string, now time.Time) State { return a.state(address, now, 0) }

// Count counts one request of the address in the minute of now, whether there is room or not.
func (a *Addresses) Count(address string, now time.Time) State { return a.state(address, now, 1) }

func (a *Addresses) state(address string, now time.Time, more int64) State {
	minute := now.Unix() / 60
	a.mu.Lock()
	c, _ := a.counts.Get(address)
	if c.minute != minute {
		c = addressCount{minute: minute}
	}
	if c.used += more; more > 0 {
		a.counts.Add(address, c)
	}
	a.mu.Unlock()
	limit := int64(a.limitOf(address))
	return State{
		Refused: c.used >= limit && more == 0,
		Windows: []Window{{Name: "address", Limit: limit, Used: c.used, Length: time.Minute, Left: time.Unix((minute+1)*60, 0).Sub(now)}},
	}
}

func (a *Addresses) limitOf(address string) int32 {
	if parsed, err := netip.ParseAddr(address); err == nil && parsed.IsLoopback() {
		return a.cfg.Loopback
	}
	return a.cfg.PerMinute
}
