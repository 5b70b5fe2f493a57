package devserver

import (
	"net"
	"strconv"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"

	"agentruntime/internal/dev/devserver/port"
)

const (
	clusterName = "active"
	disabled    = "disabled"
	// unlimited stands for "no rate limit": one machine is its own limit.
	unlimited = 1_000_000
	// queueWorkers run the tasks of a queue. They all share one SQLite connection.
	queueWorkers = 16
)

// serverConfig is a cluster of one machine: every service on the loopback
// interface, the frontend on addr, the others on free ports.
func serverConfig(addr string, shards int, main, visibility *config.SQL) (*config.Config, map[primitives.ServiceName]static.Hosts, error) {
	host, frontend, err := port.Split(addr)
	if err != nil {
		return nil, nil, err
	}
	free, err := port.Free(3)
	if err != nil {
		return nil, nil, err
	}
	listen := map[primitives.ServiceName]config.RPC{
		primitives.FrontendService: {GRPCPort: frontend, BindOnIP: host},
		primitives.HistoryService:  {GRPCPort: free[0], BindOnIP: port.Loopback},
		primitives.MatchingService: {GRPCPort: free[1], BindOnIP: port.Loopback},
		primitives.WorkerService:   {GRPCPort: free[2], BindOnIP: port.Loopback},
	}
	services := make(map[string]config.Service, len(listen))
	addrs := make(map[primitives.ServiceName]string, len(listen))
	for name, rpc := range listen {
		services[string(name)] = config.Service{RPC: rpc}
		addrs[name] = net.JoinHostPort(rpc.BindOnIP, strconv.Itoa(rpc.GRPCPort))
	}
	stores := map[string]config.DataStore{"main": {SQL: main}}
	visibilityStore := "main"
	if visibility != nil {
		visibilityStore = "visibility"
		stores[visibilityStore] = config.DataStore{SQL: visibility}
	}
	return &config.Config{
		Persistence: config.Persistence{
			DefaultStore:     "main",
			VisibilityStore:  visibilityStore,
			NumHistoryShards: int32(shards),
			DataStores:       stores,
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: addr},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            services,
		PublicClient:        config.PublicClient{HostPort: addr},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: disabled},
			Visibility: config.VisibilityArchival{State: disabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: disabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: disabled},
		}},
	}, staticHosts(addrs), nil
}

// serverSettings are the dynamic settings of the server; stock leaves all of
// them at the server's defaults.
func serverSettings(stock bool) dynamicconfig.StaticClient {
	if stock {
		return dynamicconfig.StaticClient{}
	}
	settings := dynamicconfig.StaticClient{
		// A workflow start hands its first task to the worker of the same process.
		dynamicconfig.EnableEagerWorkflowStart.Key():     true,
		dynamicconfig.EnableActivityEagerExecution.Key(): true,

		// One machine has no use for four partitions; tasks would hop between them.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,

		// A wait for a workflow's result was seen to miss its end and to sit till
		// its expiry, 20 s by default. It asks again this often instead.
		dynamicconfig.HistoryLongPollExpirationInterval.Key(): 2 * time.Second,

		// Each shard's queues are polled at most this often a second, 20 by default,
		// which is 50 ms for each hop. A caller waits for the transfer queue; the
		// others may collect a few tasks for each poll.
		dynamicconfig.TransferProcessorMaxPollRPS.Key():   1000,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():      100,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): 50,

		// The caches and pools are made for a cluster. Each of the 512 workers of a
		// queue grows a stack that every garbage collection reads.
		dynamicconfig.TransferProcessorSchedulerWorkerCount.Key():               queueWorkers,
		dynamicconfig.TimerProcessorSchedulerWorkerCount.Key():                  queueWorkers,
		dynamicconfig.MemoryTimerProcessorSchedulerWorkerCount.Key():            queueWorkers,
		dynamicconfig.VisibilityProcessorSchedulerWorkerCount.Key():             visibilityConns,
		dynamicconfig.ReplicationProcessorSchedulerWorkerCount.Key():            1,
		dynamicconfig.ReplicationLowPriorityProcessorSchedulerWorkerCount.Key(): 1,
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key():                        2_000,
		dynamicconfig.EventsHostLevelCacheMaxSizeBytes.Key():                    8 << 20,

		// Per namespace the default is 10 lists a second; the web interface alone needs more.
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): unlimited,
	}
	for _, key := range []dynamicconfig.Key{
		dynamicconfig.FrontendRPS.Key(),
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key(),
		dynamicconfig.HistoryRPS.Key(),
		dynamicconfig.MatchingRPS.Key(),

		dynamicconfig.FrontendPersistenceMaxQPS.Key(),
		dynamicconfig.HistoryPersistenceMaxQPS.Key(),
		dynamicconfig.MatchingPersistenceMaxQPS.Key(),
		dynamicconfig.WorkerPersistenceMaxQPS.Key(),
		dynamicconfig.VisibilityPersistenceMaxReadQPS.Key(),
		dynamicconfig.VisibilityPersistenceMaxWriteQPS.Key(),
	} {
		settings[key] = unlimited
	}
	return settings
}
