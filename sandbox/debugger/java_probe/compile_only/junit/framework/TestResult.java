package junit.framework;

public class TestResult {
    public native void addListener(TestListener listener);
}
