package policy

// simulations is how many simulations a process runs at once.
const simulations = 2
