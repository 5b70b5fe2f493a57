package importing

import "time"

// FetchWithin bounds how long a service fetches a document with its files, and each of them.
func (s *Service) FetchWithin(all, each time.Duration) { s.fetchTime, s.oneFetchTime = all, each }
