package sync

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// Clients are the connections to one API server, sharing one HTTP transport.
type Clients struct {
	Kube     kubernetes.Interface
	Dynamic  dynamic.Interface
	Metadata metadata.Interface

	apps rest.Interface
}

var (
	scheme         = runtime.NewScheme()
	parameterCodec = runtime.NewParameterCodec(scheme)
)

func init() {
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		panic(err) // a programming error: the types of this module do not fit each other
	}
}

// NewClients connects to the API server of cfg; nothing is sent yet. cfg is not changed.
// The rate is left to the API server's priority and fairness: the client does not limit itself. Nothing is compressed,
// since that costs both sides more than the bytes do in a cluster.
func NewClients(cfg *rest.Config) (*Clients, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	cfg.QPS = -1
	cfg.DisableCompression = true
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", cfg.Host, err)
	}
	return newClients(cfg, client)
}

func newClients(cfg *rest.Config, client *http.Client) (*Clients, error) {
	kube, err := kubernetes.NewForConfigAndClient(cfg, client)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfigAndClient(cfg, client)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfigAndClient(cfg, client)
	if err != nil {
		return nil, err
	}
	appsCfg := rest.CopyConfig(cfg)
	gv := v1alpha1.GroupVersion
	appsCfg.GroupVersion = &gv
	appsCfg.APIPath = "/apis"
	appsCfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	apps, err := rest.RESTClientForConfigAndClient(appsCfg, client)
	if err != nil {
		return nil, err
	}
	return &Clients{Kube: kube, Dynamic: dyn, Metadata: meta, apps: apps}, nil
}

// ApplicationClient reads and writes Applications of one namespace; namespace "" reads all.
type ApplicationClient = gentype.ClientWithList[*v1alpha1.Application, *v1alpha1.ApplicationList]

// Applications returns the client for Applications of namespace.
func (c *Clients) Applications(namespace string) *ApplicationClient {
	return gentype.NewClientWithList[*v1alpha1.Application, *v1alpha1.ApplicationList](
		v1alpha1.ApplicationResource.Resource, c.apps, parameterCodec, namespace,
		func() *v1alpha1.Application { return &v1alpha1.Application{} },
		func() *v1alpha1.ApplicationList { return &v1alpha1.ApplicationList{} },
	)
}
