package stepinto.runner;

import junit.framework.*;

/** JUnit 3 on its own. */
final class JUnit3Framework extends Framework {
    @Override
    void run(Selection selection, Report report) {
        TestResult result = new TestResult();
        result.addListener(new Listener(report));
        Class<? extends TestCase> type = selection.type.asSubclass(TestCase.class);
        Test test = selection.method == null
                ? new TestSuite(type) : TestSuite.createTest(type, selection.method);
        test.run(result);
    }

    private static final class Listener implements TestListener {
        private final Report report;
        private Throwable error;

        Listener(Report report) {
            this.report = report;
        }

        @Override
        public void startTest(Test test) {
            error = null;
            report.started(name(test));
        }

        @Override
        public void addError(Test test, Throwable raised) {
            error = raised;
        }

        @Override
        public void addFailure(Test test, AssertionFailedError raised) {
            error = raised;
        }

        @Override
        public void endTest(Test test) {
            if (error == null) {
                report.passed(name(test), null);
            } else {
                report.failed(name(test), null, error);
            }
        }

        private static String name(Test test) {
            String type = test.getClass().getName();
            return test instanceof TestCase ? type + "#" + ((TestCase) test).getName() : type;
        }
    }
}
