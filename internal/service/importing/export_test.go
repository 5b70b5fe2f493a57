package importing

import "time"

// LargeFetchWithin bounds how long a service fetches a document that is not small.
func (s *Service) LargeFetchWithin(all time.Duration) { s.fetches.largeTime = all }

// FetchWithin bounds how long a service fetches a document with its files, and each of them.
func (s *Service) FetchWithin(all, each time.Duration) { s.fetches.time, s.fetches.oneTime = all, each }
