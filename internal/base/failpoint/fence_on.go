//go:build chaos && !nofence

package failpoint

// FenceOff is true only in the test build that shows what the crash rig finds
// when the fence is missing.
const FenceOff = false
