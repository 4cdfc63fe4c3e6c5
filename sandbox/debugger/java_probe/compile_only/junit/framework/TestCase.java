package junit.framework;

public abstract class TestCase implements Test {
    public native String getName();
}
