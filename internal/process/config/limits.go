package config

import (
	"errors"
	"fmt"

	"agentruntime/internal/base/rate"
)

// development is the value of Env under which nobody is to meet a limit by accident.
const development = "development"

// Plan returns how many requests tenants may make. What is not set is rate.Default, and in
// development rate.Development. The ceilings are ten times as high where none is set.
func (c Config) Plan() (plan rate.Plan, err error) {
	from := rate.Default()
	if c.Env == development {
		from = rate.Development()
	}
	if plan.Default, err = from.Or(c.RateLimits); err != nil {
		return rate.Plan{}, fmt.Errorf("RATE_LIMITS: %w", err)
	}
	if plan.Ceiling, err = plan.Default.Ceiling().Or(c.RateLimitCeilings); err != nil {
		return rate.Plan{}, fmt.Errorf("RATE_LIMIT_CEILINGS: %w", err)
	}
	if !plan.Default.Within(plan.Ceiling) {
		return rate.Plan{}, errors.New("RATE_LIMIT_CEILINGS must not be below RATE_LIMITS")
	}
	return plan, nil
}

// Addresses returns how many requests without a valid credential an address may make. In
// development the addresses of this machine are those of the developer.
func (c Config) Addresses() rate.AddressConfig {
	limits := rate.AddressConfig{PerMinute: c.AddressRateLimit, Loopback: c.AddressRateLimit}
	if c.Env == development {
		limits.Loopback = rate.Development().Minute
	}
	return limits
}
