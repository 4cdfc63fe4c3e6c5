package stepinto.runner;

import org.junit.Test;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** JUnit 4, and JUnit 3 under it. */
final class JUnit4Framework extends Framework {
    @Override
    Class<?> canary() {
        return JUnit4Canary.class;
    }

    @Override
    void run(Selection selection, Report report) {
        Request request = Request.aClass(selection.type);
        if (selection.method != null) {
            Description all = request.getRunner().getDescription();
            if (selection.invocation != null && !new ByMethod(selection).shouldRun(all)) {
                return; // else it would be reported as a failure
            }
            request = request.filterWith(new ByMethod(selection));
        }
        JUnitCore core = new JUnitCore();
        core.addListener(new Listener(report));
        core.run(request);
    }

    /** The name without the index that parameterised runners add: {@code testTotal[2]}. */
    private static String methodName(Description description) {
        String name = description.getMethodName();
        int bracket = name == null ? -1 : name.indexOf('[');
        return bracket < 0 ? name : name.substring(0, bracket);
    }

    private static final class ByMethod extends Filter {
        private final String method;
        /** Null for all invocations. */
        private final String invocation;

        ByMethod(Selection selection) {
            method = selection.method;
            invocation = selection.invocation;
        }

        @Override
        public boolean shouldRun(Description description) {
            if (description.isTest()) {
                return method.equals(methodName(description)) && isInvocation(description);
            }
            for (Description child : description.getChildren()) {
                if (shouldRun(child)) {
                    return true;
                }
            }
            return false;
        }

        /** Of {@code total[2]} or {@code total[2: a name]} what is asked for is 2, or all of it. */
        private boolean isInvocation(Description description) {
            String rest = description.getMethodName().substring(method.length());
            return invocation == null || rest.equals("[" + invocation + "]")
                    || rest.startsWith("[" + invocation + ":");
        }

        @Override
        public String describe() {
            return "method " + method;
        }
    }

    private static final class Listener extends RunListener {
        private final Report report;
        private Failure failure;
        private boolean assumed;

        Listener(Report report) {
            this.report = report;
        }

        @Override
        public void testStarted(Description description) {
            failure = null;
            assumed = false;
            Test test = description.getAnnotation(Test.class);
            Class<? extends Throwable> expected = test == null ? null : test.expected();
            boolean some = expected != null && expected != Test.None.class;
            TestRunner.expectedException = some ? expected.getName() : null;
            report.started(name(description));
        }

        @Override
        public void testFailure(Failure failed) {
            if (failed.getDescription().isTest() && failed.getDescription().getMethodName() != null
                    && !failed.getDescription().getMethodName().equals("initializationError")) {
                failure = failure == null ? failed : failure;
            } else {
                report.failed(name(failed.getDescription()), null, failed.getException());
            }
        }

        @Override
        public void testAssumptionFailure(Failure failed) {
            assumed = true;
        }

        @Override
        public void testIgnored(Description description) {
            report.skipped(name(description), null, "ignored");
        }

        @Override
        public void testFinished(Description description) {
            TestRunner.expectedException = null;
            String shown = description.getMethodName();
            String method = methodName(description);
            String invocation = shown == null || shown.equals(method)
                    ? null : shown.substring(method.length());
            if (failure != null) {
                report.failed(name(description), invocation, failure.getException());
            } else if (assumed) {
                report.skipped(name(description), invocation, "an assumption does not hold");
            } else {
                report.passed(name(description), invocation);
            }
        }

        private static String name(Description description) {
            String method = methodName(description);
            boolean whole = method == null || method.equals("initializationError");
            return whole ? description.getClassName() : description.getClassName() + "#" + method;
        }
    }
}
