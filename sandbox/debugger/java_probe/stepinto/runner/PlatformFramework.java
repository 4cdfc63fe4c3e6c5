package stepinto.runner;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** The JUnit Platform: JUnit 5, and whatever other engines are on the class path. */
final class PlatformFramework extends Framework {
    @Override
    Class<?> canary() {
        if (present("org.junit.jupiter.engine.JupiterTestEngine")) {
            return JupiterCanary.class;
        }
        boolean vintage = present("org.junit.vintage.engine.VintageTestEngine");
        return vintage ? JUnit4Canary.class : null;
    }

    @Override
    void run(Selection selection, Report report) throws Selection.NoSuchTestException {
        Launcher launcher = LauncherFactory.create();
        List<DiscoverySelector> selectors = selectors(selection);
        if (selection.invocation != null) {
            selectors = invocations(selection, launcher.discover(request(selectors)));
        }
        launcher.execute(request(selectors), new Listener(selection, report));
    }

    private static LauncherDiscoveryRequest request(List<DiscoverySelector> selectors) {
        return LauncherDiscoveryRequestBuilder.request()
                .selectors(selectors.toArray(new DiscoverySelector[0]))
                .build();
    }

    /** One invocation of a method that has several. */
    private static List<DiscoverySelector> invocations(Selection selection, TestPlan plan)
            throws Selection.NoSuchTestException {
        List<DiscoverySelector> selectors = new ArrayList<DiscoverySelector>();
        for (TestIdentifier root : plan.getRoots()) {
            for (TestIdentifier test : plan.getDescendants(root)) {
                String id = test.getUniqueId();
                String kind = id.substring(id.lastIndexOf('[') + 1);
                if (kind.startsWith("test-template:")) {
                    String end = "/[test-template-invocation:#" + selection.number(1) + "]";
                    selectors.add(DiscoverySelectors.selectUniqueId(id + end));
                } else if (kind.startsWith("test-factory:")) {
                    for (String each : new String[] {"test", "container"}) {
                        String end = "/[dynamic-" + each + ":#" + selection.number(1) + "]";
                        selectors.add(DiscoverySelectors.selectUniqueId(id + end));
                    }
                }
            }
        }
        if (selectors.isEmpty()) {
            throw new Selection.NoSuchTestException(
                    selection.method + " is no test of several invocations; name it without ["
                            + selection.invocation + "]");
        }
        return selectors;
    }

    private static List<DiscoverySelector> selectors(Selection selection) {
        List<DiscoverySelector> selectors = new ArrayList<DiscoverySelector>();
        if (selection.method == null) {
            selectors.add(DiscoverySelectors.selectClass(selection.type));
        } else {
            for (Method method : selection.methods()) {
                selectors.add(DiscoverySelectors.selectMethod(selection.type, method));
            }
        }
        return selectors;
    }

    private static final class Listener implements TestExecutionListener {
        private final Selection selection;
        private final Report report;

        Listener(Selection selection, Report report) {
            this.selection = selection;
            this.report = report;
        }

        @Override
        public void executionStarted(TestIdentifier test) {
            if (test.isTest()) {
                report.started(name(test));
            }
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            report.skipped(name(test), null, reason);
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            boolean failed = result.getStatus() == TestExecutionResult.Status.FAILED;
            if (failed) {
                Throwable error = result.getThrowable().orElse(null);
                report.failed(name(test), invocation(test), error);
            } else if (test.isTest()) {
                if (result.getStatus() == TestExecutionResult.Status.ABORTED) {
                    report.skipped(name(test), invocation(test), "an assumption does not hold");
                } else {
                    report.passed(name(test), invocation(test));
                }
            }
        }

        private String name(TestIdentifier test) {
            TestSource source = test.getSource().orElse(null);
            if (source instanceof MethodSource) {
                MethodSource method = (MethodSource) source;
                return method.getClassName() + "#" + method.getMethodName();
            }
            if (source instanceof ClassSource) {
                return ((ClassSource) source).getClassName();
            }
            return selection.type.getName();
        }

        /** What tells the runs of one parameterised or repeated test apart. */
        private static String invocation(TestIdentifier test) {
            boolean one = test.getUniqueId().contains("-invocation:");
            return one ? test.getDisplayName() : null;
        }
    }
}
