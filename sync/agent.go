package sync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/source/webhook"
)

// Agent is a Controller with what it takes to run it for long: leader election, health checks and metrics.
type Agent struct {
	config     Config
	controller *Controller
	clients    *Clients
	log        *slog.Logger
	ready      atomic.Bool
}

// NewAgent returns an agent for the API server of cfg. It returns an error when config cannot be; nothing is sent yet.
func NewAgent(config Config, cfg *rest.Config, log *slog.Logger) (*Agent, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	metrics := newMetrics()
	counted := rest.CopyConfig(cfg)
	counted.WarningHandler = warnings{log}
	counted.Wrap(metrics.countRequests)
	clients, err := NewClients(counted)
	if err != nil {
		return nil, err
	}
	kinds := apply.NewKinds(clients.Kube.Discovery(), clock.RealClock{})
	classes := newStorageClasses(clients)
	judge, err := health.NewJudge(config.HealthRules, health.Options{HasStatus: kinds.HasStatus, WaitForFirstConsumer: classes.waits})
	if err != nil {
		return nil, healthRulesError("health-rules", err)
	}
	return &Agent{config: config, controller: newController(config, clients, kinds, judge, classes, metrics, log), clients: clients, log: log}, nil
}

// warnings logs what the API server remarks on a request, such as a deprecated version, for those who look for it: it
// says so again with each request.
type warnings struct{ log *slog.Logger }

func (w warnings) HandleWarningHeader(code int, _, text string) {
	if code == 299 { // the only code that the API server sends: a remark of its own
		w.log.Debug("the API server remarks", "warning", text)
	}
}

// Run serves and looks after the Applications until ctx is done. Of several agents it waits until it is the leader.
// It returns an error when it cannot serve, or loses its lease: then it must be started anew.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if a.config.MetricsAddress != "" {
		listener, err := net.Listen("tcp", a.config.MetricsAddress)
		if err != nil {
			return fmt.Errorf("metrics-address: %w", err)
		}
		a.log.Info("serving", "address", listener.Addr().String())
		go a.serve(ctx, cancel, listener)
	}
	if a.config.WebhookAddress != "" {
		listener, err := net.Listen("tcp", a.config.WebhookAddress)
		if err != nil {
			return fmt.Errorf("webhook-address: %w", err)
		}
		a.receiveHooks(ctx, cancel, listener)
	}
	if a.config.LeaderElect {
		return a.lead(ctx)
	}
	return a.run(ctx)
}

func (a *Agent) run(ctx context.Context) error {
	a.ready.Store(true)
	defer a.ready.Store(false)
	err := a.controller.Run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// errLeaseLost ends an agent that is no longer the leader: another one may be acting already.
var errLeaseLost = errors.New("the lease was lost: another agent leads, or the API server could not be reached in time")

// lead runs the controller while this agent holds the lease.
func (a *Agent) lead(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "trueup"
	}
	identity := host + "_" + string(uuid.NewUUID())
	// A standby is ready: it does what a standby does.
	a.ready.Store(true)
	// The lease is given up only once the controller has come to its end.
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	var began atomic.Bool
	done := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		if !began.Load() {
			release()
		}
	})()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: a.config.LeaderElectNamespace, Name: "trueup"},
			Client:     a.clients.Kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		ReleaseOnCancel: true,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		Name:            "trueup",
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				a.log.Info("leading", "identity", identity)
				began.Store(true)
				running, stop := context.WithCancel(ctx)
				defer stop()
				defer context.AfterFunc(leading, stop)()
				done <- a.run(running)
				release()
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(leader string) {
				switch {
				case leader == identity:
				case a.config.ApplicationName != "":
					a.log.Warn("standing by: another agent leads in this namespace; if it does not look after this Application, set leader-elect-namespace to another namespace",
						"leader", leader, "namespace", a.config.LeaderElectNamespace, "application", a.config.ApplicationName)
				default:
					a.log.Info("standing by", "leader", leader)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("electing a leader: %w", err)
	}
	elector.Run(electing)
	if !began.Load() {
		return nil
	}
	if err := <-done; err != nil || ctx.Err() != nil {
		return err
	}
	return errLeaseLost
}

// receiveHooks starts to receive the calls of Git servers: by every agent, whether it is the leader or not.
func (a *Agent) receiveHooks(ctx context.Context, fail context.CancelCauseFunc, listener net.Listener) {
	c := a.controller
	h := newHooks(a.config.WebhookSecrets, a.log, c.metrics.hooked, c.hooked)
	var ready []string
	for _, provider := range webhook.Providers() {
		if _, err := h.secret(provider); err == nil {
			ready = append(ready, string(provider))
		}
	}
	a.log.Info("receiving webhook calls", "address", listener.Addr().String(), "providers", strings.Join(ready, ","))
	if len(ready) == 0 {
		a.log.Error("every webhook call will be refused: there is no secret; add a file for a provider, such as github", "folder", a.config.WebhookSecrets)
	}
	go c.relay(ctx)
	go func() {
		if err := h.serve(ctx, listener); err != nil {
			fail(fmt.Errorf("receiving webhook calls: %w", err))
		}
	}()
}

func (a *Agent) serve(ctx context.Context, fail context.CancelCauseFunc, listener net.Listener) {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(a.controller.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !a.ready.Load() {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		fail(fmt.Errorf("serving metrics: %w", err))
	}
}
